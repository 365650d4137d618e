// The report's page: the address after # says which leaf is open.

import { loadRun, type Run } from "./data";
import { announce, byId, h } from "./dom";
import { show } from "./panel";

const panel = byId("panel");
let cameFrom: HTMLElement | null = null;
let turn = 0;
/** Where the overview stood: on a narrow screen a leaf takes its place. */
let stood = 0;

function wanted(): string {
  return /^#leaf=([\w.-]+)/.exec(location.hash)?.[1] ?? "";
}

async function route(run: Run): Promise<void> {
  const id = wanted();
  const mine = ++turn;
  const leaf = run.verdicts.leaves.find((l) => l.id === id) ?? (id ? run.verdicts.leaves.find((l) => l.id.startsWith(id)) : undefined);
  for (const a of document.querySelectorAll<HTMLElement>("[data-leaf]")) {
    if (leaf && a.dataset["leaf"] === leaf.id) a.setAttribute("aria-current", "true");
    else a.removeAttribute("aria-current");
  }
  document.body.classList.toggle("with-panel", leaf !== undefined);
  if (!leaf) {
    panel.hidden = true;
    panel.replaceChildren();
    cameFrom?.focus({ preventScroll: true });
    window.scrollTo(0, stood);
    cameFrom = null;
    return;
  }
  panel.hidden = false;
  window.scrollTo(0, 0);
  panel.setAttribute("aria-label", `Leaf ${leaf.scenario} under ${leaf.assumption}`);
  const shown = show(panel, run, leaf, () => turn === mine);
  document.getElementById("leaf-title")?.focus({ preventScroll: true });
  await shown;
}

async function copy(button: HTMLElement): Promise<void> {
  const text = button.dataset["copy"] ?? "";
  const done = (await toClipboard(text)) ? "Copied" : "Select and copy";
  button.textContent = done;
  announce(done);
  window.setTimeout(() => (button.textContent = "Copy"), 1600);
}

async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page opened from a file may not have the clipboard; the old way needs a selection.
    const area = h("textarea", { readonly: true, class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const ok = document.execCommand("copy");
    area.remove();
    return ok;
  }
}

document.addEventListener("click", (e) => {
  const target = e.target as Element;
  const button = target.closest<HTMLElement>("[data-copy]");
  if (button) void copy(button);
  const link = target.closest<HTMLElement>("[data-leaf]");
  if (link) {
    cameFrom = link;
    if (panel.hidden) stood = window.scrollY;
  }
  if (target.closest(".close")) {
    e.preventDefault();
    close();
  }
});

function close(): void {
  if (!wanted()) return;
  history.pushState(null, "", location.pathname + location.search);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && !(e.target instanceof HTMLInputElement && e.target.value)) close();
});

function failed(error: unknown): void {
  panel.hidden = false;
  document.body.classList.add("with-panel");
  panel.replaceChildren(h("p", { class: "sentence fail" }, `This leaf cannot be shown: ${String(error)}`));
}

loadRun()
  .then((run) => {
    const go = (): void => void route(run).catch(failed);
    window.addEventListener("hashchange", go);
    if (wanted()) go();
    document.documentElement.dataset["ready"] = "true";
  })
  .catch(failed);
