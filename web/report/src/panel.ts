// The panel beside the matrix: all about one leaf.

import { loadTrace, type Leaf, type Run, type Trace } from "./data";
import { add, announce, debounce, h } from "./dom";
import { Lanes } from "./lanes";
import { List } from "./list";
import { count, duration, Model, sentence, time } from "./model";

const rowHeight = 30;

export function leafClass(leaf: Leaf): string {
  if (leaf.verdict.outcome === "PASS") return "pass";
  if (leaf.verdict.outcome === "FAIL") return "fail";
  return leaf.verdict.reasons?.[0]?.code === "interrupted" ? "stopped" : "open";
}

/** What of a leaf is known without its trace; the trace is unpacked afterwards. */
export async function show(panel: HTMLElement, run: Run, leaf: Leaf, stillWanted: () => boolean): Promise<void> {
  panel.replaceChildren(header(run, leaf), h("div", { class: "wait" }, "Unpacking the trace…"));
  panel.scrollTop = 0;
  const trace = await loadTrace(leaf.id);
  if (!stillWanted()) return;
  panel.querySelector(".wait")?.remove();
  const model = new Model(trace);
  add(panel, [
    story(model),
    trace.at.length > 0 ? timeline(model) : h("p", { class: "empty" }, "This leaf has no events: it never began."),
    facts(leaf),
    outputs(trace),
  ]);
  if (trace.witness) model.select(trace.witness);
}

function header(run: Run, leaf: Leaf): HTMLElement {
  const all = run.verdicts.leaves;
  const at = all.findIndex((l) => l.id === leaf.id);
  const go = (to: Leaf | undefined, text: string, label: string): HTMLElement =>
    to ? h("a", { class: "button", href: `#leaf=${to.id}`, "aria-label": label, title: label }, text) : h("span", { class: "button off", "aria-hidden": "true" }, text);
  const reasons = run.reasons[leaf.id] ?? [];
  const first = leaf.verdict.reasons?.[0];
  const code = first ? run.codes[first.code] : undefined;
  const again = run.again[leaf.id] ?? "";
  const out = h(
    "div",
    { class: "top" },
    h(
      "div",
      { class: "bar" },
      h("span", { class: `chip ${leafClass(leaf)}` }, leaf.verdict.outcome),
      h("span", { class: "quiet facts" }, `leaf ${run.short[leaf.id]} · ${duration(leaf.duration_ns / 1e6)}${leaf.level ? ` · ${leaf.level}` : ""}`),
      h("span", { class: "grow" }),
      go(all[at - 1], "‹", "Previous leaf"),
      go(all[at + 1], "›", "Next leaf"),
      h("a", { class: "button close", href: "#", "aria-label": "Close this leaf", title: "Close (Esc)" }, "✕"),
    ),
    h("h2", { tabindex: -1, id: "leaf-title" }, leaf.scenario, h("span", { class: "quiet" }, " × "), leaf.assumption),
    h("p", { class: `sentence ${leafClass(leaf)}` }, reasons[0] ?? passSentence(leaf)),
  );
  for (const more of reasons.slice(1)) out.append(h("p", { class: "sentence more" }, more));
  if (code) {
    out.append(
      h("p", { class: "mend" }, h("span", { class: "quiet" }, `${sentence(code.Sentence)} `), `Next: ${code.Mend}.`,
        first?.position ? h("span", { class: "quiet" }, ` ${first.position}`) : null),
    );
  }
  for (const w of leaf.verdict.warnings ?? []) {
    out.append(h("p", { class: "note" }, `${w.subject ? `${w.subject}: ` : ""}${sentence(run.codes[w.code]?.Sentence ?? w.detail)}`));
  }
  out.append(
    h("div", { class: "command" }, h("code", {}, again),
      h("button", { type: "button", class: "copy", "data-copy": again, "aria-label": "Copy the replay command of this leaf" }, "Copy")),
  );
  return out;
}

function passSentence(leaf: Leaf): string {
  const checked = (leaf.properties ?? []).filter((p) => p.result === "satisfied").length;
  const fired = (leaf.rules ?? []).reduce((n, r) => n + r.fired, 0);
  const parts = ["The scenario ended in the regular way"];
  if (checked > 0) parts.push(`${checked} ${checked === 1 ? "property" : "properties"} held`);
  if ((leaf.rules ?? []).length > 0) parts.push(`its fault fired ${fired === 1 ? "once" : `${fired} times`}`);
  return `${parts.join(", ")}.`;
}

function story(model: Model): HTMLElement | null {
  const t = model.trace;
  if (t.story.length === 0) return null;
  const items = t.story.map((seq) => {
    const i = seq - 1;
    const kind = seq === t.witness ? "witness" : (t.fault[i] ?? 0) > 0 ? "fault" : "";
    return h(
      "li",
      { class: kind },
      h(
        "button",
        { type: "button", "data-seq": seq, click: () => model.select(seq) },
        h("span", { class: "seq" }, `#${seq}`),
        h("span", { class: "lane" }, t.lanes[t.lane[i] ?? 0]),
        h("span", { class: "verb" }, t.verb[i]),
        h("span", { class: "what" }, t.what[i], seq === t.witness ? h("em", {}, "witness") : null),
      ),
    );
  });
  return h("section", { "aria-labelledby": "story-title" }, h("h3", { id: "story-title" }, "What happened"), h("ol", { class: "story" }, ...items));
}

function timeline(model: Model): HTMLElement {
  const lanes = new Lanes(model);
  const detail = h("div", { class: "detail", "aria-live": "off" });
  const events = eventList(model);
  const logs = logList(model);
  logs.element.hidden = true;
  const tally = h("span", { class: "quiet tally", role: "status" });
  const retell = (): void => {
    tally.textContent =
      model.shown.length === model.size ? `${count(model.size)} events` : `${count(model.shown.length)} of ${count(model.size)} events`;
  };
  retell();
  model.watch((what) => {
    if (what === "filter") retell();
    else describe(model, detail);
  });
  describe(model, detail);
  return h(
    "section",
    { "aria-labelledby": "lanes-title", class: "timeline" },
    h("h3", { id: "lanes-title" }, "Lanes"),
    toolbar(model, lanes, tally),
    lanes.element,
    legend(),
    views(events, logs),
    events.element,
    logs.element,
    detail,
  );
}

function toolbar(model: Model, lanes: Lanes, tally: HTMLElement): HTMLElement {
  const t = model.trace;
  const search = h("input", { type: "search", placeholder: "Search events", "aria-label": "Search events", class: "search", id: "search" });
  search.addEventListener("input", debounce(120, () => model.apply({ text: search.value })));
  const chips = t.lanes.map((name, lane) => {
    const b = h("button", { type: "button", class: "toggle", "aria-pressed": "true" }, name);
    b.addEventListener("click", () => {
      const on = new Set(model.filter.lanes);
      if (!on.delete(lane)) on.add(lane);
      b.setAttribute("aria-pressed", String(on.has(lane)));
      model.apply({ lanes: on });
    });
    return b;
  });
  const pick = (label: string, names: string[], fn: (i: number) => void): HTMLElement => {
    const s = h("select", { "aria-label": label, change: () => fn(Number(s.value)) }, h("option", { value: -1 }, label));
    for (const [i, name] of names.entries()) s.append(h("option", { value: i }, name));
    return s;
  };
  const faults = h("button", { type: "button", class: "toggle", "aria-pressed": "false" }, "only faults");
  faults.addEventListener("click", () => {
    const on = !model.filter.faultsOnly;
    faults.setAttribute("aria-pressed", String(on));
    model.apply({ faultsOnly: on });
  });
  const axis = h("button", { type: "button", class: "toggle", "aria-pressed": String(lanes.ordered), title: "Space events evenly instead of by time" }, "even spacing");
  axis.addEventListener("click", () => {
    lanes.setOrdered(!lanes.ordered);
    axis.setAttribute("aria-pressed", String(lanes.ordered));
  });
  const zoom = (text: string, label: string, fn: () => void): HTMLElement =>
    h("button", { type: "button", class: "button", "aria-label": label, title: label, click: fn }, text);
  return h(
    "div",
    { class: "toolbar" },
    search,
    h("div", { class: "group", role: "group", "aria-label": "Services" }, ...chips),
    h("div", { class: "group" }, pick("all kinds", t.kinds, (kind) => model.apply({ kind })),
      t.links.length > 0 ? pick("all links", t.links, (link) => model.apply({ link })) : null, faults),
    h("div", { class: "group end" }, tally, axis, h("span", { class: "zoom" },
      zoom("−", "Zoom out (−)", () => lanes.zoom(1 / 0.6)), zoom("+", "Zoom in (+)", () => lanes.zoom(0.6)), zoom("fit", "Show all (0)", () => lanes.fit()))),
  );
}

function legend(): HTMLElement {
  return h(
    "p",
    { class: "legend quiet", "aria-hidden": "true" },
    h("span", {}, h("i", { class: "dot" }), "event"),
    h("span", {}, h("i", { class: "diamond" }), "fault acted"),
    h("span", {}, h("i", { class: "dot red" }), "witness"),
    h("span", {}, h("i", { class: "arrow" }, "→"), "led to"),
    h("span", { class: "hint" }, "click an event; drag to move; Ctrl + wheel, + and − to zoom"),
  );
}

function views(events: List, logs: List): HTMLElement {
  const tab = (text: string, on: boolean): HTMLButtonElement => h("button", { type: "button", class: "toggle", "aria-pressed": String(on) }, text);
  const a = tab("Events", true);
  const b = tab("Logs side by side", false);
  const turn = (showLogs: boolean) => (): void => {
    a.setAttribute("aria-pressed", String(!showLogs));
    b.setAttribute("aria-pressed", String(showLogs));
    events.element.hidden = showLogs;
    logs.element.hidden = !showLogs;
    (showLogs ? logs : events).draw();
  };
  a.addEventListener("click", turn(false));
  b.addEventListener("click", turn(true));
  return h("div", { class: "views", role: "group", "aria-label": "View" }, a, b);
}

function eventList(model: Model): List {
  const t = model.trace;
  const list = new List(
    {
      length: () => model.shown.length,
      selected: () => (model.selected && model.passes[model.selected - 1] ? model.position(model.selected - 1) : -1),
      choose: (row) => model.select((model.shown[row] ?? 0) + 1),
      fill: (row, n) => {
        const i = model.shown[n] ?? 0;
        if (i + 1 === t.witness) row.classList.add("witness");
        else if ((t.fault[i] ?? 0) > 0) row.classList.add("fault");
        add(row, [
          h("span", { class: "seq" }, `#${i + 1}`),
          h("span", { class: "at" }, time(t.at[i] ?? 0)),
          h("span", { class: "lane" }, t.lanes[t.lane[i] ?? 0]),
          h("span", { class: "verb" }, t.verb[i]),
          h("span", { class: "what" }, (t.what[i] ?? "").slice(0, 400)),
        ]);
      },
    },
    "Events",
    rowHeight,
  );
  list.element.id = "events";
  list.reset();
  model.watch((what) => {
    if (what === "filter") list.reset();
    list.reveal(model.selected && model.passes[model.selected - 1] ? model.position(model.selected - 1) : -1);
  });
  return list;
}

/** What the services printed, each in its own column, at the same time on the same height. */
function logList(model: Model): List {
  const t = model.trace;
  const printed = new Set(["stdout", "stderr"].map((k) => t.kinds.indexOf(k)));
  const services = t.lanes.map((_, lane) => lane).filter((lane) => t.lanes[lane] !== "driver");
  let rows: number[] = [];
  const collect = (): void => {
    rows = [];
    for (const i of model.shown) if (printed.has(t.kind[i] ?? -1)) rows.push(i);
  };
  const list = new List(
    {
      length: () => rows.length,
      selected: () => (model.selected ? rows.indexOf(model.selected - 1) : -1),
      choose: (row) => model.select((rows[row] ?? 0) + 1),
      fill: (row, n) => {
        const i = rows[n] ?? 0;
        row.classList.add("log");
        row.append(h("span", { class: "at" }, time(t.at[i] ?? 0)));
        for (const lane of services) {
          const mine = t.lane[i] === lane;
          row.append(h("span", { class: `line${mine && t.verb[i] === "stderr" ? " err" : ""}` }, mine ? `${t.lanes[lane]}  ${(t.what[i] ?? "").slice(0, 400)}` : ""));
        }
      },
    },
    "Logs",
    rowHeight,
  );
  list.element.id = "loglines";
  const again = (): void => {
    collect();
    list.reset();
  };
  again();
  model.watch((what) => {
    if (what === "filter") again();
    if (!list.element.hidden && model.selected) list.reveal(rows.indexOf(model.selected - 1));
  });
  return list;
}

function describe(model: Model, into: HTMLElement): void {
  const t = model.trace;
  const seq = model.selected;
  if (!seq) {
    into.replaceChildren(h("p", { class: "quiet" }, "Choose an event to see all of it."));
    return;
  }
  const i = seq - 1;
  const head = `#${seq}  ${t.lanes[t.lane[i] ?? 0]}  ${t.verb[i]}`;
  const jump = (n: number): HTMLElement =>
    h("button", { type: "button", class: "jump", click: () => model.select(n) }, `#${n} ${t.lanes[t.lane[n - 1] ?? 0]} ${t.verb[n - 1]}`);
  const causes = t.cause[seq] ?? [];
  const effects: number[] = [];
  for (let n = seq + 1; n <= Math.min(model.size, seq + 500) && effects.length < 6; n++) if (t.cause[n]?.includes(seq)) effects.push(n);
  const dl = h("dl", { class: "fields" });
  const fields = t.fields[i] ? (JSON.parse(t.fields[i] ?? "{}") as Record<string, unknown>) : {};
  for (const [name, value] of Object.entries(fields)) {
    add(dl, [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]);
  }
  into.replaceChildren(
    h("p", { class: "what" }, h("b", {}, head), h("span", { class: "quiet" }, `  ${time(t.at[i] ?? 0)}  ${t.kinds[t.kind[i] ?? 0]}`)),
    dl,
  );
  if (causes.length > 0) into.append(h("p", {}, h("span", { class: "quiet" }, "led by "), ...causes.map(jump)));
  if (effects.length > 0) into.append(h("p", {}, h("span", { class: "quiet" }, "led to "), ...effects.map(jump)));
  announce(`${head} ${t.what[i]}${seq === t.witness ? ", the witness" : ""}`.slice(0, 240));
}

function facts(leaf: Leaf): HTMLElement {
  const out = h("section", { "aria-labelledby": "facts-title" }, h("h3", { id: "facts-title" }, "Rules, properties, choices"));
  const table = (caption: string, head: string[], rows: (string | number | HTMLElement)[][]): void => {
    if (rows.length === 0) return;
    out.append(
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
        h("table", { class: "facts" }, h("caption", {}, caption),
          h("thead", {}, h("tr", {}, ...head.map((x) => h("th", { scope: "col" }, x)))),
          h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((x, i) => (i === 0 ? h("th", { scope: "row" }, x) : h("td", i === row.length - 1 && head[i] === "why" ? { class: "long" } : {}, x)))))))),
    );
  };
  table("Rules", ["rule", "on", "effect", "fired", "declared at"],
    (leaf.rules ?? []).map((r) => [r.id, r.target, h("code", {}, r.effect), r.fired > 0 ? `${count(r.fired)} ×` : r.optional ? "never (optional)" : h("span", { class: "never" }, "never"), r.position ?? ""]));
  table("Properties", ["property", "kind", "result", "why"],
    (leaf.properties ?? []).map((p) => [p.name, p.kind, h("span", { class: `result ${p.result}` }, p.result.replace("_", " ")), p.message ?? ""]));
  table("Choices", ["choice", "taken", "of"], (leaf.choices ?? []).map((c) => [c.name, c.index + 1, c.of]));
  const dl = h("dl", { class: "env" });
  const fact = (name: string, value: string | undefined): void => {
    if (value) add(dl, [h("dt", {}, name), h("dd", {}, value)]);
  };
  fact("result", leaf.result);
  for (const [name, ns] of Object.entries(leaf.phases_ns ?? {})) fact(name, duration(ns / 1e6));
  fact("level", leaf.level ? `${leaf.level}${leaf.level_reason ? `: ${leaf.level_reason}` : ""}` : undefined);
  fact("seed", String(leaf.seed));
  fact("trace", leaf.trace);
  out.append(dl);
  return out;
}

function outputs(trace: Trace): HTMLElement | null {
  const names = Object.keys(trace.logs);
  if (names.length === 0) return null;
  return h(
    "section",
    { "aria-labelledby": "output-title" },
    h("h3", { id: "output-title" }, "Output as printed"),
    ...names.map((name) => h("details", {}, h("summary", {}, name), h("pre", { tabindex: 0 }, trace.logs[name] || "(nothing)"))),
  );
}
