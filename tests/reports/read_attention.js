// Goes through the page about attention as a reader would, and writes down what it sees.
"use strict";

{
  const seen = {};
  const all = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
  const click = (selector) => all(selector)[0].click();
  const point = (element) =>
    element.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, pointerType: "mouse" }));
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  for (const button of all("fieldset input, fieldset button")) {
    button.click();
    for (const item of all("li")) point(item);
  }
  for (const name of ["decoder", "memory", "encoder"]) {
    click(`.attention-choice [value=${name}]`);
    for (const cell of all("td[data-head]")) cell.click();
    for (const item of all("li")) point(item);
    // The attention that is shown next may have no such piece.
    all(".explorer .lines .queries li").at(-1).click();
  }
  click("td[data-layer='1'][data-head='2']");
  seen.title = all(".explorer .title")[0].textContent;
  seen.rects = all(".cells rect").length;
  point(all(".explorer .lines .queries li")[3]);
  seen.facts = all(".facts")[0].innerText;
  seen.strokes = all(".explorer .strokes path")
    .map((path) => [Number(path.getAttribute("opacity")), path.getAttribute("d")]);
  seen.marked = all(".strips .marked").map((item) => item.textContent);
  seen.from = all(".exploring")[0].style.getPropertyValue("--from");
  press(all("td[aria-selected=true]")[0], "ArrowUp");
  seen.above = all(".explorer .title")[0].textContent;
  const first = all(".explorer .lines .keys li")[0];
  first.focus();
  press(first, "ArrowDown");
  seen.key = all(".facts")[0].innerText;
  press(document.activeElement, "Escape");
  seen.released = all(".facts")[0].innerText;
  click(".view:nth-of-type(2) button");
  seen.view = all(".explorer .how")[0].textContent;
  const list = document.querySelector(".sentence-choice select");
  list.selectedIndex = 1;
  list.dispatchEvent(new Event("change"));
  seen.source = all(".pair dd")[0].textContent;
  document.body.dataset.seen = JSON.stringify(seen);
}
