// Filters the list of claims. Without JavaScript the form stays hidden and every claim is shown.
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
    form.elements.shown.value = `${shown} of ${items.length}`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
})();
