// The data that the Go side put into the page, as gzip in base64, one block a leaf.

export interface Reason {
  code: string;
  detail: string;
  subject?: string;
  witness?: number;
  position?: string;
}

export interface Rule {
  id: string;
  assumption?: string;
  target: string;
  effect: string;
  optional?: boolean;
  fired: number;
  position?: string;
}

export interface Property {
  name: string;
  kind: string;
  result: string;
  message?: string;
  witness?: number;
  position?: string;
}

export interface Choice {
  name: string;
  index: number;
  of: number;
}

export interface Leaf {
  id: string;
  scenario: string;
  assumption: string;
  seed: number;
  verdict: { outcome: "PASS" | "FAIL" | "INCONCLUSIVE"; reasons?: Reason[]; warnings?: Reason[] };
  duration_ns: number;
  phases_ns?: Record<string, number>;
  rules?: Rule[];
  properties?: Property[];
  choices?: Choice[];
  result?: string;
  level?: string;
  level_reason?: string;
  events: number;
  trace?: string;
}

export interface Code {
  Code: string;
  Sentence: string;
  Mend: string;
}

export interface Run {
  verdicts: { leaves: Leaf[] };
  short: Record<string, string>;
  again: Record<string, string>;
  codes: Record<string, Code>;
  reasons: Record<string, string[]>;
}

export interface Window {
  rule: string;
  effect: string;
  from: number;
  to: number;
  fired: number;
}

/** A leaf's events in columns; event number seq stands at index seq - 1. */
export interface Trace {
  id: string;
  lanes: string[];
  kinds: string[];
  links: string[];
  at: number[];
  lane: number[];
  kind: number[];
  link: number[];
  fault: number[];
  verb: string[];
  what: string[];
  fields: string[];
  witness: number;
  cause: Record<string, number[]>;
  story: number[];
  windows: Window[];
  logs: Record<string, string>;
}

async function unpack(id: string): Promise<unknown> {
  const block = document.getElementById(`data-${id}`);
  if (!block?.textContent) throw new Error(`the page has no data for ${id}`);
  const binary = atob(block.textContent.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export const loadRun = async (): Promise<Run> => (await unpack("run")) as Run;

/** The trace of one leaf. The last one is kept, so that going back to it is immediate. */
let last: Promise<Trace> | undefined;
let lastId = "";
export function loadTrace(id: string): Promise<Trace> {
  if (id !== lastId || !last) {
    lastId = id;
    last = unpack(id) as Promise<Trace>;
  }
  return last;
}
