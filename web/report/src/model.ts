// What is selected and filtered in a leaf. The lanes and the list watch it; neither knows the other.

import type { Trace } from "./data";

export interface Filter {
  text: string;
  lanes: Set<number>;
  kind: number;
  link: number;
  faultsOnly: boolean;
}

export class Model {
  /** Indexes of the events that pass the filter, ascending. */
  shown: Int32Array;
  /** 1 for each event that passes. */
  readonly passes: Uint8Array;
  /** The chosen event's Seq, or 0. */
  selected = 0;
  readonly filter: Filter;
  private readonly watchers: ((what: "filter" | "selection") => void)[] = [];
  private haystack: string[] | undefined;

  constructor(readonly trace: Trace) {
    const n = trace.at.length;
    this.passes = new Uint8Array(n).fill(1);
    this.shown = Int32Array.from({ length: n }, (_, i) => i);
    this.filter = { text: "", lanes: new Set(trace.lanes.keys()), kind: -1, link: -1, faultsOnly: false };
  }

  get size(): number {
    return this.trace.at.length;
  }

  watch(fn: (what: "filter" | "selection") => void): void {
    this.watchers.push(fn);
  }

  select(seq: number): void {
    if (seq < 0 || seq > this.size) return;
    this.selected = seq;
    for (const fn of this.watchers) fn("selection");
  }

  /** Moves the selection by so many shown events. */
  step(by: number): void {
    if (this.shown.length === 0) return;
    const at = this.selected ? this.position(this.selected - 1) : by > 0 ? -1 : this.shown.length;
    const next = Math.min(Math.max(at + by, 0), this.shown.length - 1);
    this.select((this.shown[next] ?? 0) + 1);
  }

  /** The place of an event among the shown ones, or that of the one before it. */
  position(index: number): number {
    let lo = 0;
    let hi = this.shown.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if ((this.shown[mid] ?? 0) <= index) lo = mid + 1;
      else hi = mid;
    }
    return lo - 1;
  }

  apply(change: Partial<Filter>): void {
    Object.assign(this.filter, change);
    const { text, lanes, kind, link, faultsOnly } = this.filter;
    const t = this.trace;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const hay = words.length > 0 ? this.lower() : undefined;
    const shown: number[] = [];
    for (let i = 0; i < this.size; i++) {
      const ok =
        lanes.has(t.lane[i] ?? -1) &&
        (kind < 0 || t.kind[i] === kind) &&
        (link < 0 || t.link[i] === link) &&
        (!faultsOnly || (t.fault[i] ?? 0) > 0) &&
        (hay === undefined || words.every((w) => hay[i]?.includes(w)));
      this.passes[i] = ok ? 1 : 0;
      if (ok) shown.push(i);
    }
    this.shown = Int32Array.from(shown);
    for (const fn of this.watchers) fn("filter");
  }

  /** The selected event's causes, all the way back on other lanes, and what it led to directly. */
  related(): Set<number> {
    const out = new Set<number>();
    const queue = [this.selected];
    for (let seq = queue.pop(); seq !== undefined && out.size < 64; seq = queue.pop()) {
      for (const cause of this.trace.cause[seq] ?? []) {
        if (!out.has(cause)) {
          out.add(cause);
          queue.push(cause);
        }
      }
    }
    return out;
  }

  private lower(): string[] {
    const t = this.trace;
    this.haystack ??= t.at.map((_, i) =>
      `#${i + 1} ${t.lanes[t.lane[i] ?? 0]} ${t.kinds[t.kind[i] ?? 0]} ${t.verb[i]} ${t.what[i]} ${t.fields[i]}`.toLowerCase(),
    );
    return this.haystack;
  }
}

export function time(us: number): string {
  if (us < 1000) return `${us} µs`;
  if (us < 1_000_000) return `${(us / 1000).toFixed(us < 100_000 ? 2 : 1)} ms`;
  return `${(us / 1_000_000).toFixed(3)} s`;
}

/** A length of time for people: three digits that matter. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Number(ms.toPrecision(3))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toPrecision(3)} s`;
  return `${Math.floor(ms / 60_000)} min ${String(Math.round(ms / 1000) % 60).padStart(2, "0")} s`;
}

export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

export function count(n: number): string {
  return n.toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}
