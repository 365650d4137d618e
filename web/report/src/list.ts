// A list of any length of which only the rows in view exist.

import { h, onFrame } from "./dom";

export interface Source {
  /** How many rows there are. */
  length(): number;
  /** Fills a row. It gets an empty element and the row's number. */
  fill(row: HTMLElement, index: number): void;
  /** Which row is selected, or -1. */
  selected(): number;
  choose(index: number): void;
}

// Browsers stop at some 16 million pixels; beyond that a scrolled pixel stands for more than one.
const tallest = 12_000_000;

export class List {
  readonly element: HTMLElement;
  private readonly body: HTMLElement;
  private readonly rows = new Map<number, HTMLElement>();
  private scale = 1;
  readonly draw: () => void;

  constructor(
    private readonly source: Source,
    label: string,
    private readonly rowHeight: number,
  ) {
    this.body = h("div", { class: "rows", role: "presentation" });
    this.element = h(
      "div",
      { class: "list", role: "listbox", tabindex: 0, "aria-label": label, keydown: (e) => this.key(e as KeyboardEvent) },
      this.body,
    );
    this.draw = onFrame(() => this.render());
    this.element.addEventListener("scroll", this.draw, { passive: true });
    new ResizeObserver(this.draw).observe(this.element);
    this.body.addEventListener("click", (e) => {
      const row = (e.target as Element).closest<HTMLElement>("[data-index]");
      if (row) source.choose(Number(row.dataset["index"]));
    });
  }

  /** The rows changed. */
  reset(): void {
    this.rows.clear();
    this.body.replaceChildren();
    const height = this.source.length() * this.rowHeight;
    this.scale = Math.max(1, height / tallest);
    this.body.style.height = `${height / this.scale}px`;
    if (this.source.length() === 0) this.body.append(h("p", { class: "empty" }, "Nothing passes this filter."));
    this.draw();
  }

  /** Makes a row visible. */
  reveal(index: number): void {
    if (index < 0) return;
    const top = index * this.rowHeight;
    const view = this.element.clientHeight;
    const at = this.element.scrollTop * this.scale;
    if (top < at || top + this.rowHeight > at + view) {
      this.element.scrollTop = Math.max(0, top - view / 2) / this.scale;
    }
    this.draw();
  }

  private render(): void {
    const n = this.source.length();
    const top = this.element.scrollTop * this.scale;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - 6);
    const last = Math.min(n, Math.ceil((top + this.element.clientHeight) / this.rowHeight) + 6);
    for (const [i, row] of this.rows) {
      if (i < first || i >= last) {
        row.remove();
        this.rows.delete(i);
      }
    }
    const selected = this.source.selected();
    const offset = top - this.element.scrollTop;
    for (let i = first; i < last; i++) {
      let row = this.rows.get(i);
      if (!row) {
        row = h("div", {
          class: "row", role: "option", id: `${this.element.id}-${i}`, "data-index": i, "aria-posinset": i + 1, "aria-setsize": n,
        });
        this.source.fill(row, i);
        this.rows.set(i, row);
        this.body.append(row);
      }
      row.style.transform = `translateY(${i * this.rowHeight - offset}px)`;
      row.setAttribute("aria-selected", String(i === selected));
    }
    if (this.rows.has(selected)) this.element.setAttribute("aria-activedescendant", `${this.element.id}-${selected}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const n = this.source.length();
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const at = this.source.selected();
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: n - 1 }[e.key];
    if (to === undefined || n === 0) return;
    e.preventDefault();
    this.source.choose(Math.min(Math.max(to, 0), n - 1));
  }
}
