"use strict";
// Zoom and move the pictures; say what is under the pointer; show a move that is named in the text.
const told = document.getElementById("told");
const LARGE = 1500; // pixels of a picture that is shown at its own size, around its first move, before it is zoomed

function view(svg) { return svg.getAttribute("viewBox").split(" ").map(Number); }
function show(svg, box) { svg.setAttribute("viewBox", box.join(" ")); }

function zoom(svg, factor, x = 0.5, y = 0.5) {
  const [left, top, width, height] = view(svg);
  show(svg, [left + width * x * (1 - factor), top + height * y * (1 - factor), width * factor, height * factor]);
}

function fit(svg) { show(svg, svg.dataset.box.split(" ").map(Number)); }

function begin(svg) {
  const [left, top, width, height] = svg.dataset.box.split(" ").map(Number);
  const seen = svg.getBoundingClientRect();
  if (height < LARGE && width < LARGE) return fit(svg);
  const wide = Math.min(width, Math.max(seen.width, 600)), high = wide * seen.height / Math.max(seen.width, 1);
  const first = svg.querySelector(".node.changed") || svg.querySelector(".node.move") || svg.querySelector(".node");
  const place = first.transform.baseVal.consolidate().matrix;
  show(svg, [place.e + 84 - wide / 2, Math.max(top, place.f - high / 3), wide, high]);
}

function choose(node) {
  document.querySelectorAll(".node.chosen").forEach((other) => other.classList.remove("chosen"));
  node.classList.add("chosen");
  told.textContent = node.querySelector("title").textContent;
}

function centre(node) {
  const svg = node.ownerSVGElement;
  const place = node.transform.baseVal.consolidate().matrix;
  const seen = svg.getBoundingClientRect();
  const width = 640, height = width * seen.height / Math.max(seen.width, 1);
  show(svg, [place.e + 84 - width / 2, place.f + 15 - height / 2, width, height]);
  choose(node);
  svg.scrollIntoView({ block: "center", behavior: "smooth" });
}

for (const pane of document.querySelectorAll(".pane")) {
  const svg = pane.querySelector("svg.graph");
  const fingers = new Map();
  let spread = 0;
  svg.setAttribute("tabindex", "0");
  begin(svg);
  pane.querySelector("[data-do=in]").onclick = () => zoom(svg, 0.7);
  pane.querySelector("[data-do=out]").onclick = () => zoom(svg, 1 / 0.7);
  pane.querySelector("[data-do=fit]").onclick = () => fit(svg);
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== svg) return; // the page scrolls until the picture was clicked
    event.preventDefault();
    const seen = svg.getBoundingClientRect();
    zoom(svg, Math.exp(event.deltaY / 400), (event.clientX - seen.left) / seen.width, (event.clientY - seen.top) / seen.height);
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, event); svg.focus({ preventScroll: true }); });
  svg.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    const [left, top, width, height] = view(svg);
    const seen = svg.getBoundingClientRect();
    const scale = Math.max(width / seen.width, height / seen.height);
    fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      const now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      if (spread) zoom(svg, spread / Math.max(now, 1));
      spread = now;
      return;
    }
    show(svg, [left - (event.clientX - last.clientX) * scale, top - (event.clientY - last.clientY) * scale, width, height]);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    svg.addEventListener(name, (event) => { fingers.delete(event.pointerId); spread = 0; });
  }
  svg.addEventListener("keydown", (event) => {
    const [left, top, width, height] = view(svg);
    const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
    if (event.key === "+" || event.key === "=") zoom(svg, 0.8);
    else if (event.key === "-") zoom(svg, 1.25);
    else if (event.key === "0") fit(svg);
    else if (moves[event.key]) show(svg, [left + width * moves[event.key][0], top + height * moves[event.key][1], width, height]);
    else return;
    event.preventDefault();
  });
  for (const name of ["pointerover", "click"]) {
    svg.addEventListener(name, (event) => { const node = event.target.closest(".node"); if (node) choose(node); });
  }
}
for (const link of document.querySelectorAll("a.to")) {
  link.onclick = (event) => { event.preventDefault(); centre(document.getElementById(link.hash.slice(1))); };
}
window.addEventListener("beforeprint", () => { // paper shows all of it: it can neither be zoomed nor opened
  document.querySelectorAll("svg.graph").forEach(fit);
  document.querySelectorAll("details").forEach((part) => { part.open = true; });
});
