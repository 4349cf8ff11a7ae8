// Shows the values under the pointer. The page shows all curves without this script.
"use strict";

for (const figure of document.querySelectorAll("figure.chart")) {
  const series = JSON.parse(figure.querySelector("script").textContent);
  const plots = figure.querySelector(".plots");
  const rule = add(plots, "div", "pointer");
  const readOut = add(plots, "div", "read-out");
  const hide = () => { rule.hidden = readOut.hidden = true; };
  hide();
  plots.addEventListener("pointerleave", hide);
  plots.addEventListener("pointermove", (event) => show(event.clientX));

  function show(clientX) {
    const plot = [...plots.querySelectorAll(".plot")].find((each) => getComputedStyle(each).display !== "none");
    const { axis, end } = plot.dataset;
    const place = plots.getBoundingClientRect();
    const x = (clientX - place.left) / place.width * Number(end);
    const found = series.map((each) => ({ each, index: nearest(each[axis], x) })).filter(({ index }) => index >= 0);
    if (!found.length) return hide();

    const distance = ({ each, index }) => Math.abs(each[axis][index] - x);
    const closest = found.reduce((best, other) => (distance(other) < distance(best) ? other : best));
    const at = closest.each[axis][closest.index];
    const share = at / Number(end);
    rule.hidden = readOut.hidden = false;
    rule.style.left = `${share * 100}%`;
    readOut.style.left = share < 0.5 ? `calc(${share * 100}% + 0.6rem)` : "auto";
    readOut.style.right = share < 0.5 ? "auto" : `calc(${(1 - share) * 100}% + 0.6rem)`;

    readOut.replaceChildren();
    add(readOut, "div").textContent = axis === "update" ? `update ${shown(at)}` : `${shown(at)} minutes`;
    for (const { each, index } of found) {
      const line = add(readOut, "div", `value colour-${each.colour}`);
      // Curves may have no point at this place: then the read-out says where their nearest point is.
      const elsewhere = each[axis][index] === at ? "" : ` (at ${shown(each[axis][index])})`;
      line.append(`${each.label}: ${shown(each.value[index])}${elsewhere}`);
    }
  }
}

// The index of the number closest to x in ascending numbers with gaps; -1 if there is none.
function nearest(numbers, x) {
  let best = -1;
  numbers.forEach((number, index) => {
    if (number !== null && (best < 0 || Math.abs(number - x) < Math.abs(numbers[best] - x))) best = index;
  });
  return best;
}

function shown(number) {
  const integer = Number.isInteger(number);
  return number.toLocaleString("en", integer ? {} : { maximumSignificantDigits: 4 });
}

function add(parent, name, className = "") {
  const made = document.createElement(name);
  made.className = className;
  return parent.appendChild(made);
}
