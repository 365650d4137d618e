// The lanes: one for each service and the driver, drawn on a canvas. Above them the windows in which
// rules were in force; between them what led to what.

import { h, onFrame } from "./dom";
import { count, time, type Model } from "./model";

const laneHeight = 42;
const axisHeight = 24;
const windowHeight = 18;
const right = 20;
const maxArrows = 400;

interface Colours {
  ink: string;
  quiet: string;
  line: string;
  fault: string;
  fail: string;
  accent: string;
  ground: string;
  band: string;
}

export class Lanes {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly tip: HTMLElement;
  /** The visible part of the axis, in its units: microseconds, or places in order. */
  private from = 0;
  private to = 1;
  private byOrder: boolean;
  private readonly draw: () => void;
  private width = 0;
  private left = 92;

  constructor(private readonly model: Model) {
    this.byOrder = model.size <= 160;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    const t = model.trace;
    this.element = h(
      "div",
      {
        class: "lanes", tabindex: 0, role: "group", "aria-roledescription": "timeline",
        "aria-label":
          `Lanes of ${t.lanes.join(", ")}; ${count(model.size)} events. ` +
          "Left and right choose an event, plus and minus zoom, 0 shows all. The list below has the same events as text.",
        keydown: (e) => this.key(e as KeyboardEvent),
      },
      this.canvas,
      this.tip,
    );
    this.draw = onFrame(() => this.render());
    this.fit();
    model.watch((what) => {
      if (what === "selection") this.follow();
      this.draw();
    });
    new ResizeObserver(this.draw).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.draw);
    this.pointer();
  }

  get ordered(): boolean {
    return this.byOrder;
  }

  setOrdered(on: boolean): void {
    this.byOrder = on;
    this.fit();
    this.follow();
  }

  fit(): void {
    this.from = 0;
    this.to = Math.max(1, this.value(this.model.size - 1));
    const margin = (this.to - this.from) * 0.015 + (this.byOrder ? 0.5 : 0);
    this.from -= margin;
    this.to += margin;
    this.draw();
  }

  zoom(factor: number, around?: number): void {
    const chosen = this.model.selected ? this.value(this.model.selected - 1) : undefined;
    const middle = around ?? (chosen !== undefined && chosen > this.from && chosen < this.to ? chosen : (this.from + this.to) / 2);
    const span = Math.max((this.to - this.from) * factor, this.byOrder ? 4 : 20);
    const part = (middle - this.from) / (this.to - this.from);
    this.from = middle - span * part;
    this.to = this.from + span;
    this.clamp();
  }

  private clamp(): void {
    const end = Math.max(1, this.value(this.model.size - 1));
    const span = Math.min(this.to - this.from, end * 1.06 + 2);
    const room = Math.max(span * 0.1, end * 0.03 + 1);
    this.from = Math.min(Math.max(this.from, -room), end + room - span);
    this.to = this.from + span;
    this.draw();
  }

  private pan(part: number): void {
    const by = (this.to - this.from) * part;
    this.from += by;
    this.to += by;
    this.clamp();
  }

  /** Brings the chosen event into view. */
  private follow(): void {
    const seq = this.model.selected;
    if (!seq) return;
    const v = this.value(seq - 1);
    const span = this.to - this.from;
    if (v < this.from + span * 0.05 || v > this.to - span * 0.05) {
      this.from = v - span / 2;
      this.to = v + span / 2;
      this.clamp();
    }
  }

  private value(i: number): number {
    return this.byOrder ? i : (this.model.trace.at[i] ?? 0);
  }

  private x(v: number): number {
    return this.left + ((v - this.from) / (this.to - this.from)) * (this.width - this.left - right);
  }

  private at(x: number): number {
    return this.from + ((x - this.left) / (this.width - this.left - right)) * (this.to - this.from);
  }

  private top(): number {
    return axisHeight + this.model.trace.windows.length * windowHeight + (this.model.trace.windows.length ? 8 : 0);
  }

  private y(lane: number): number {
    return this.top() + lane * laneHeight + laneHeight / 2;
  }

  /** The first event whose value is not less than v. Values never fall with the index. */
  private lower(v: number): number {
    let lo = 0;
    let hi = this.model.size;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (this.value(mid) < v) lo = mid + 1;
      else hi = mid;
    }
    return lo;
  }

  private colours(): Colours {
    const style = getComputedStyle(this.element);
    const get = (name: string): string => style.getPropertyValue(`--${name}`).trim();
    return {
      ink: get("ink"), quiet: get("quiet"), line: get("line"), fault: get("fault"), fail: get("fail"),
      accent: get("accent"), ground: get("ground"), band: get("band"),
    };
  }

  private render(): void {
    const t = this.model.trace;
    this.width = this.element.clientWidth;
    if (this.width === 0) return;
    this.left = this.width < 520 ? 64 : 92;
    const height = this.top() + t.lanes.length * laneHeight + 6;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${height}px`;
    const c = this.canvas.getContext("2d");
    if (!c) return;
    c.scale(ratio, ratio);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    const k = this.colours();
    this.ground(c, k, height);
    c.save();
    c.beginPath();
    c.rect(this.left - 8, 0, this.width - this.left + 8, height);
    c.clip();
    this.drawWindows(c, k);
    const first = Math.max(0, this.lower(this.from) - 1);
    const last = Math.min(this.model.size, this.lower(this.to) + 1);
    this.drawArrows(c, k, first, last);
    this.drawEvents(c, k, first, last);
    this.drawChosen(c, k, height);
    c.restore();
  }

  private ground(c: CanvasRenderingContext2D, k: Colours, height: number): void {
    const t = this.model.trace;
    c.fillStyle = k.quiet;
    for (const [value, label] of this.ticks()) {
      const x = this.x(value);
      if (x < this.left - 1 || x > this.width - 4) continue;
      c.fillStyle = k.line;
      c.fillRect(Math.round(x), axisHeight - 4, 1, height - axisHeight);
      c.fillStyle = k.quiet;
      c.textAlign = x > this.width - 50 ? "right" : "left";
      c.fillText(label, x + (c.textAlign === "right" ? -3 : 3), axisHeight / 2);
    }
    for (const [lane, name] of t.lanes.entries()) {
      const y = this.y(lane);
      c.fillStyle = k.line;
      c.fillRect(this.left - 8, Math.round(y), this.width - this.left, 1);
      const off = !this.model.filter.lanes.has(lane);
      c.fillStyle = off ? k.quiet : k.ink;
      c.textAlign = "left";
      c.font = "600 12px system-ui, sans-serif";
      c.fillText(clip(c, name, this.left - 18), 2, y);
      c.font = "12px system-ui, sans-serif";
    }
  }

  private ticks(): [number, string][] {
    const want = Math.max(2, Math.floor((this.width - this.left) / 110));
    const raw = (this.to - this.from) / want;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = Math.max(this.byOrder ? 1 : 1, power * ([1, 2, 5, 10].find((m) => m * power >= raw) ?? 10));
    const out: [number, string][] = [];
    const begin = Math.max(0, Math.ceil(this.from / step) * step);
    for (let v = begin; v <= this.to && out.length < 40; v += step) {
      out.push(this.byOrder ? [v, `#${count(Math.round(v) + 1)}`] : [v, v === 0 ? "0" : short(v, step)]);
    }
    return out;
  }

  private drawWindows(c: CanvasRenderingContext2D, k: Colours): void {
    const t = this.model.trace;
    for (const [i, w] of t.windows.entries()) {
      const y = axisHeight + i * windowHeight;
      const a = Math.max(this.x(this.value(w.from - 1)), this.left - 8);
      const b = Math.min(w.to ? this.x(this.value(w.to - 1)) : this.width, this.width);
      if (b < a) continue;
      c.globalAlpha = 0.14;
      c.fillStyle = k.fault;
      c.fillRect(a, y, b - a, windowHeight - 3);
      c.globalAlpha = 1;
      c.fillRect(a, y, 2, windowHeight - 3);
      c.textAlign = "left";
      const label = `${w.rule}  ${w.fired ? `fired ×${count(w.fired)}` : "never fired"}`;
      c.save();
      c.beginPath();
      c.rect(a, y, Math.max(0, b - a - 4), windowHeight);
      c.clip();
      c.fillText(label, a + 8, y + (windowHeight - 3) / 2);
      c.restore();
    }
  }

  private drawArrows(c: CanvasRenderingContext2D, k: Colours, first: number, last: number): void {
    const t = this.model.trace;
    const related = this.model.selected ? this.model.related() : new Set<number>();
    const chain = new Set([...related, this.model.selected]);
    const all = last - first <= maxArrows * 3;
    const strong: [number, number][] = [];
    c.strokeStyle = k.quiet;
    c.globalAlpha = 0.45;
    c.lineWidth = 1;
    let drawn = 0;
    for (let i = first; all && i < last && drawn < maxArrows; i++) {
      for (const cause of t.cause[i + 1] ?? []) {
        if (chain.has(i + 1) && chain.has(cause)) strong.push([cause, i + 1]);
        else if (this.model.passes[i] && this.model.passes[cause - 1]) {
          this.arrow(c, cause, i + 1);
          drawn++;
        }
      }
    }
    if (!all) for (const seq of chain) for (const cause of t.cause[seq] ?? []) strong.push([cause, seq]);
    c.globalAlpha = 1;
    c.strokeStyle = k.accent;
    c.lineWidth = 1.75;
    for (const [a, b] of strong) this.arrow(c, a, b);
    c.lineWidth = 1;
  }

  private arrow(c: CanvasRenderingContext2D, cause: number, seq: number): void {
    const t = this.model.trace;
    const x1 = this.x(this.value(cause - 1));
    const y1 = this.y(t.lane[cause - 1] ?? 0);
    const x2 = this.x(this.value(seq - 1));
    const y2 = this.y(t.lane[seq - 1] ?? 0);
    const bend = Math.min(24, Math.abs(x2 - x1) / 2);
    c.beginPath();
    c.moveTo(x1, y1);
    c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    c.stroke();
    if (Math.abs(x2 - x1) + Math.abs(y2 - y1) < 14) return;
    const down = Math.sign(y2 - y1);
    c.beginPath();
    if (bend > 6) {
      c.moveTo(x2 - 9, y2 - 3);
      c.lineTo(x2 - 5, y2);
      c.lineTo(x2 - 9, y2 + 3);
    } else {
      c.moveTo(x2 - 3, y2 - down * 9);
      c.lineTo(x2, y2 - down * 5);
      c.lineTo(x2 + 3, y2 - down * 9);
    }
    c.stroke();
  }

  /** Draws the events; where several fall on the same pixel of a lane they are drawn once. */
  private drawEvents(c: CanvasRenderingContext2D, k: Colours, first: number, last: number): void {
    const t = this.model.trace;
    const seen = new Map<number, number>();
    const marks: { x: number; lane: number; n: number; last: number }[] = [];
    const open = new Map<number, (typeof marks)[number]>();
    const dense = last - first > (this.width - this.left) * 1.5;
    if (dense) this.drawDensity(c, k, first, last);
    for (let i = first; i < last; i++) {
      const lane = t.lane[i] ?? 0;
      const x = this.x(this.value(i));
      const fault = t.fault[i] ?? 0;
      const passes = this.model.passes[i] === 1;
      if (fault > 0 && passes) {
        const m = open.get(lane);
        if (m && x - m.last < 13) {
          m.n++;
          m.last = x;
        } else {
          const mark = { x, lane, n: 1, last: x };
          open.set(lane, mark);
          marks.push(mark);
        }
        continue;
      }
      if (dense) continue;
      const key = lane * 100_000 + Math.round(x * 2);
      const before = seen.get(key) ?? 0;
      seen.set(key, before + 1);
      if (before > 0) continue;
      c.globalAlpha = passes ? 0.9 : 0.12;
      c.fillStyle = k.ink;
      dot(c, x, this.y(lane), last - first > 300 ? 2.5 : 3.5);
    }
    c.globalAlpha = 1;
    for (const m of marks) {
      diamond(c, (m.x + m.last) / 2, this.y(m.lane), 6.5, k.fault, k.ground);
      if (m.n > 1) {
        c.fillStyle = k.fault;
        c.textAlign = "center";
        c.font = "600 11px system-ui, sans-serif";
        c.fillText(`×${count(m.n)}`, (m.x + m.last) / 2, this.y(m.lane) - 14);
        c.font = "12px system-ui, sans-serif";
      }
    }
  }

  /** Where there are more events than pixels: how many there are, as a bar for every few pixels. */
  private drawDensity(c: CanvasRenderingContext2D, k: Colours, first: number, last: number): void {
    const t = this.model.trace;
    const step = 2;
    const columns = Math.ceil((this.width - this.left) / step) + 4;
    const counts = new Float64Array(columns * t.lanes.length);
    let most = 1;
    for (let i = first; i < last; i++) {
      if (!this.model.passes[i]) continue;
      const column = Math.floor((this.x(this.value(i)) - this.left) / step) + 2;
      if (column < 0 || column >= columns) continue;
      const at = (t.lane[i] ?? 0) * columns + column;
      const n = (counts[at] ?? 0) + 1;
      counts[at] = n;
      if (n > most) most = n;
    }
    c.fillStyle = k.quiet;
    c.globalAlpha = 0.6;
    for (let lane = 0; lane < t.lanes.length; lane++) {
      for (let column = 0; column < columns; column++) {
        const n = counts[lane * columns + column] ?? 0;
        if (n === 0) continue;
        const height = 3 + 19 * Math.sqrt(n / most);
        c.fillRect(this.left + (column - 2) * step, this.y(lane) - height / 2, step, height);
      }
    }
    c.globalAlpha = 1;
  }

  private drawChosen(c: CanvasRenderingContext2D, k: Colours, height: number): void {
    const t = this.model.trace;
    if (t.witness) {
      const x = this.x(this.value(t.witness - 1));
      const y = this.y(t.lane[t.witness - 1] ?? 0);
      c.strokeStyle = k.fail;
      c.globalAlpha = 0.35;
      c.setLineDash([3, 3]);
      c.beginPath();
      c.moveTo(x, axisHeight);
      c.lineTo(x, height - 4);
      c.stroke();
      c.setLineDash([]);
      c.globalAlpha = 1;
      c.fillStyle = k.fail;
      dot(c, x, y, 5);
      c.font = "600 11px system-ui, sans-serif";
      c.textAlign = x > this.width - 80 ? "right" : "left";
      c.fillText("witness", x + (x > this.width - 80 ? -9 : 9), y - 13);
      c.font = "12px system-ui, sans-serif";
    }
    const seq = this.model.selected;
    if (seq) {
      c.strokeStyle = k.accent;
      c.lineWidth = 2;
      c.beginPath();
      c.arc(this.x(this.value(seq - 1)), this.y(t.lane[seq - 1] ?? 0), 9, 0, 7);
      c.stroke();
      c.lineWidth = 1;
    }
  }

  /** The shown event that is nearest to a point, within reach, or -1. */
  private nearest(px: number, py: number): number {
    const lane = Math.floor((py - this.top()) / laneHeight);
    const reach = (14 / (this.width - this.left - right)) * (this.to - this.from);
    const v = this.at(px);
    let best = -1;
    let distance = Infinity;
    for (let i = this.lower(v - reach); i < this.model.size && this.value(i) <= v + reach; i++) {
      if (this.model.trace.lane[i] !== lane || !this.model.passes[i]) continue;
      const d = Math.abs(this.value(i) - v) - ((this.model.trace.fault[i] ?? 0) > 0 ? reach / 3 : 0);
      if (d < distance) [best, distance] = [i, d];
    }
    return best;
  }

  private pointer(): void {
    let drag: { x: number; from: number; moved: boolean } | undefined;
    const e = this.canvas;
    e.addEventListener("pointerdown", (p) => {
      if (p.button !== 0) return;
      drag = { x: p.offsetX, from: this.from, moved: false };
      e.setPointerCapture(p.pointerId);
    });
    e.addEventListener("pointermove", (p) => {
      if (drag) {
        const dx = p.offsetX - drag.x;
        drag.moved ||= Math.abs(dx) > 4;
        if (drag.moved) {
          const span = this.to - this.from;
          this.from = drag.from - (dx / (this.width - this.left - right)) * span;
          this.to = this.from + span;
          this.clamp();
        }
        this.tip.hidden = true;
        return;
      }
      this.hover(p.offsetX, p.offsetY);
    });
    e.addEventListener("pointerup", (p) => {
      if (drag && !drag.moved) {
        const i = this.nearest(p.offsetX, p.offsetY);
        if (i >= 0) this.model.select(i + 1);
      }
      drag = undefined;
    });
    e.addEventListener("pointercancel", () => (drag = undefined));
    e.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.element.addEventListener("wheel", (w) => this.wheel(w), { passive: false });
  }

  /** The wheel zooms with Ctrl, and without it once the lanes have the focus; sideways it pans. */
  private wheel(w: WheelEvent): void {
    if (Math.abs(w.deltaX) > Math.abs(w.deltaY) || w.shiftKey) {
      w.preventDefault();
      this.pan((w.deltaX || w.deltaY) / 600);
    } else if (w.ctrlKey || w.metaKey || document.activeElement === this.element) {
      w.preventDefault();
      this.zoom(Math.exp(Math.max(-60, Math.min(60, w.deltaY)) / 150), this.at(w.offsetX));
    }
  }

  private hover(px: number, py: number): void {
    const i = this.nearest(px, py);
    const t = this.model.trace;
    this.canvas.style.cursor = i >= 0 ? "pointer" : "grab";
    this.tip.hidden = i < 0;
    if (i < 0) return;
    this.tip.replaceChildren(
      h("b", {}, `#${i + 1}  ${t.verb[i]}`),
      h("span", {}, ` ${time(t.at[i] ?? 0)}`),
      h("br"),
      (t.what[i] ?? "").slice(0, 120),
    );
    this.tip.style.left = `${Math.max(4, Math.min(px + 12, this.width - 280))}px`;
    this.tip.style.top = `${py + 16}px`;
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act: Record<string, () => void> = {
      "+": () => this.zoom(0.6),
      "=": () => this.zoom(0.6),
      "-": () => this.zoom(1 / 0.6),
      "0": () => this.fit(),
      ArrowRight: () => (e.shiftKey ? this.pan(0.2) : this.model.step(1)),
      ArrowLeft: () => (e.shiftKey ? this.pan(-0.2) : this.model.step(-1)),
      Home: () => this.model.select((this.model.shown[0] ?? -1) + 1),
      End: () => this.model.select((this.model.shown[this.model.shown.length - 1] ?? -1) + 1),
    };
    const fn = act[e.key];
    if (!fn) return;
    e.preventDefault();
    fn();
  }
}

function dot(c: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  c.beginPath();
  c.arc(x, y, r, 0, 7);
  c.fill();
}

function diamond(c: CanvasRenderingContext2D, x: number, y: number, r: number, fill: string, rim: string): void {
  c.beginPath();
  c.moveTo(x, y - r);
  c.lineTo(x + r, y);
  c.lineTo(x, y + r);
  c.lineTo(x - r, y);
  c.closePath();
  c.strokeStyle = rim;
  c.lineWidth = 3;
  c.stroke();
  c.lineWidth = 1;
  c.fillStyle = fill;
  c.fill();
}

/** An axis label with no more digits than the step needs. */
function short(us: number, step: number): string {
  if (us >= 1_000_000 || step >= 1_000_000) return `${trim(us / 1_000_000, step / 1_000_000)} s`;
  if (us >= 1000 || step >= 1000) return `${trim(us / 1000, step / 1000)} ms`;
  return `${Math.round(us)} µs`;
}

function trim(v: number, step: number): string {
  return v.toFixed(Math.max(0, Math.min(4, Math.ceil(-Math.log10(step) - 1e-9))));
}

function clip(c: CanvasRenderingContext2D, text: string, width: number): string {
  if (c.measureText(text).width <= width) return text;
  let s = text;
  while (s.length > 1 && c.measureText(`${s}…`).width > width) s = s.slice(0, -1);
  return `${s}…`;
}
