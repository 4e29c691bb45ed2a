// Filters the claims, and unfolds what a filter asks for. Without JavaScript the form stays hidden.
(() => {
  const form = document.getElementById("filters");
  const items = [...document.querySelectorAll("ul.claims > li")];
  const apply = () => {
    const wanted = new FormData(form);
    const text = wanted.get("text").trim().toLowerCase();
    let shown = 0;
    for (const item of items) {
      const matches = ["verdict", "study", "scale"].every(
        (name) => !wanted.get(name) || item.dataset[name] === wanted.get(name));
      item.hidden = !(matches && item.textContent.toLowerCase().includes(text));
      shown += item.hidden ? 0 : 1;
    }
    const asked = text || ["verdict", "study", "scale"].some((name) => wanted.get(name));
    for (const group of document.querySelectorAll("details.silent")) {
      const found = group.querySelectorAll("li:not([hidden])").length;
      group.hidden = found === 0;
      group.open = Boolean(asked) && found > 0;
      group.querySelector("summary").textContent = `${found} claim${found === 1 ? "" : "s"} ${group.dataset.verdict}`;
    }
    form.elements.shown.value = `${shown} of ${items.length}`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("beforeprint", () => {
    for (const group of document.querySelectorAll("details.silent")) group.open = true;
  });
  form.hidden = false;
  apply();
})();
