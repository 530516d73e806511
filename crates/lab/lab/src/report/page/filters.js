// Filters, search, deep links and the folding table of contents.

/** The filters as an object with only the active entries. */
function activeFilters(form) {
  return Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
}

/** Returns whether a row of the table of claims passes the filters. */
function rowMatches(row, filters) {
  return (
    (!filters.paper || row.dataset.paper === filters.paper) &&
    (!filters.study || row.dataset.study === filters.study) &&
    (!filters.verdict || row.dataset.verdict === filters.verdict) &&
    (!filters.gate || row.dataset.gate === "1") &&
    textMatches(row, filters.q)
  );
}

/** Returns whether an element contains all words of a query. */
function textMatches(element, query) {
  if (!query) return true;
  element.searchText ??= element.textContent.toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => element.searchText.includes(word));
}

/** Shows the claims and studies that pass the filters. */
function applyFilters(form) {
  const filters = activeFilters(form);
  const isActive = Object.keys(filters).length > 0;
  const rows = [...document.querySelectorAll("tr[data-verdict]")];
  const studies = new Set();
  let count = 0;
  for (const row of rows) {
    const matches = rowMatches(row, filters);
    row.hidden = !matches;
    if (matches) {
      count += 1;
      studies.add(row.dataset.study);
    }
  }
  const onlyText = Object.keys(filters).every((key) => key === "q" || key === "paper");
  let visibleSections = 0;
  for (const section of document.querySelectorAll("section.study")) {
    const isPaper = !filters.paper || section.dataset.paper === filters.paper;
    const matches = !isActive || studies.has(section.id) || (onlyText && isPaper && textMatches(section, filters.q));
    section.hidden = !matches;
    if (matches) {
      visibleSections += 1;
      studies.add(section.id);
    }
  }
  for (const entry of document.querySelectorAll(".contents li[data-study]")) {
    entry.hidden = isActive && !studies.has(entry.dataset.study) && !(onlyText && !filters.paper && textMatches(entry, filters.q));
  }
  const nothing = document.querySelector(".nothing");
  if (nothing) nothing.hidden = count > 0;
  const hasSections = document.querySelector("section.study") !== null;
  document.querySelector(".nothing-shown").hidden = !hasSections || visibleSections > 0;
  form.querySelector("output").textContent = isActive ? `${count} of ${rows.length} claims` : `${rows.length} claims`;
}

/** Writes the filters into the address, so that a link shows the same view. */
function rememberFilters(form) {
  const query = new URLSearchParams(activeFilters(form)).toString();
  history.replaceState(null, "", query ? `#?${query}` : "#");
}

/** Sets the filters from the address, or shows the part of the page that it names. */
function followAddress(form) {
  const address = location.hash.slice(1);
  if (address.startsWith("?")) {
    if (!form) return;
    const query = new URLSearchParams(address.slice(1));
    for (const field of form.elements) {
      if (!field.name) continue;
      if (field.type === "checkbox") field.checked = query.get(field.name) === "1";
      else field.value = query.get(field.name) ?? "";
    }
    applyFilters(form);
    form.scrollIntoView();
    return;
  }
  const target = address && document.getElementById(decodeURIComponent(address));
  if (!target) return;
  if (form && target.closest("[hidden]")) {
    form.reset();
    clearHidden(form);
    applyFilters(form);
  }
  for (let element = target; element; element = element.parentElement) {
    if (element.tagName === "DETAILS") element.open = true;
  }
  target.scrollIntoView();
  if (!target.hasAttribute("tabindex") && !target.matches("a,button,input")) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}

/** A reset does not change hidden fields. */
function clearHidden(form) {
  for (const field of form.querySelectorAll("input[type=hidden]")) field.value = "";
}

function setUpFilters() {
  const form = document.querySelector("form.filters");
  if (form) {
    form.hidden = false;
    const update = () => {
      applyFilters(form);
      rememberFilters(form);
    };
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () =>
      setTimeout(() => {
        clearHidden(form);
        update();
      }),
    );
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest?.("input,select,textarea,[contenteditable]");
      if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        form.elements.q.focus();
      }
    });
    applyFilters(form);
  }
  addEventListener("hashchange", () => followAddress(form));
  followAddress(form);
}

function setUpContents() {
  const nav = document.querySelector(".contents");
  const button = nav.querySelector(".contents-button");
  const open = (isOpen) => {
    nav.classList.toggle("open", isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
  };
  button.addEventListener("click", () => open(!nav.classList.contains("open")));
  nav.addEventListener("click", (event) => event.target.closest("a") && open(false));
  nav.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      open(false);
      button.focus();
    }
  });
}
