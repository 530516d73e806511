// The editor: a text area with line numbers, a mark on the line of an error, and completions.

const LINE_HEIGHT = 19;
const PADDING = { left: 8, top: 6 };

class Editor {
  constructor({ onChange, onRun }) {
    this.area = byId("text");
    this.gutter = byId("gutter");
    this.marks = byId("marks");
    this.list = byId("completions");
    this.completer = null;
    this.options = [];
    this.selected = 0;
    this.replaceFrom = 0;
    this.tabLeaves = false;
    this.errorLine = null;
    this.lineCount = 0;
    this.onChange = onChange;
    this.onRun = onRun;
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("scroll", () => this.alignScroll());
    this.area.addEventListener("keydown", (event) => this.onKey(event));
    this.area.addEventListener("click", () => this.closeList());
    this.area.addEventListener("blur", () => setTimeout(() => this.closeList(), 150));
  }

  get text() {
    return this.area.value;
  }

  /** Replaces the whole text, for another scenario. */
  setText(text) {
    this.area.value = text;
    this.area.scrollTop = 0;
    this.area.setSelectionRange(0, 0);
    this.changed(false);
  }

  changed(offerCompletions = true) {
    this.setError(null);
    this.drawGutter();
    this.onChange();
    if (offerCompletions) this.offer(false);
  }

  drawGutter() {
    const count = this.text.split("\n").length;
    if (count !== this.lineCount) {
      this.lineCount = count;
      this.gutter.replaceChildren(...Array.from({ length: count }, (_, index) => element("div", {}, String(index + 1))));
    }
    for (const [index, line] of [...this.gutter.children].entries()) line.classList.toggle("bad", index + 1 === this.errorLine);
    this.alignScroll();
  }

  alignScroll() {
    this.gutter.scrollTop = this.area.scrollTop;
    for (const mark of this.marks.children) {
      mark.style.top = `${PADDING.top + (this.errorLine - 1) * LINE_HEIGHT - this.area.scrollTop}px`;
    }
  }

  /** Marks the line of an error; `null` removes the mark. */
  setError(line) {
    this.errorLine = line;
    this.marks.replaceChildren(...(line ? [element("div", { class: "line" })] : []));
    this.area.setAttribute("aria-invalid", line ? "true" : "false");
    if (this.gutter.children.length > 0) this.drawGutter();
  }

  /** Moves the cursor to a line and a column. */
  goTo(line, column = 1) {
    const lines = this.text.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    const position = start + Math.min(column - 1, lines[line - 1]?.length ?? 0);
    this.area.focus();
    this.area.setSelectionRange(position, position);
    this.area.scrollTop = Math.max(0, (line - 6) * LINE_HEIGHT);
  }

  /** Inserts text at the selection. The browser's undo includes it. */
  insert(text, from = this.area.selectionStart) {
    this.area.setSelectionRange(from, this.area.selectionEnd);
    if (!document.execCommand("insertText", false, text)) {
      this.area.setRangeText(text, from, this.area.selectionEnd, "end");
      this.changed(false);
    }
  }

  onKey(event) {
    const isOpen = !this.list.hidden;
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      this.closeList();
      this.onRun();
    } else if (event.ctrlKey && event.key === " ") {
      event.preventDefault();
      this.offer(true);
    } else if (isOpen && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      this.select(this.selected + (event.key === "ArrowDown" ? 1 : -1));
    } else if (isOpen && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      this.accept(this.selected);
    } else if (event.key === "Escape") {
      this.tabLeaves = !isOpen;
      this.closeList();
    } else if (event.key === "Tab" && !event.shiftKey && !this.tabLeaves) {
      event.preventDefault();
      this.insert("  ");
    } else if (event.key === "Enter") {
      const line = this.text.slice(0, this.area.selectionStart).split("\n").pop();
      const indent = /^\s*/.exec(line)[0];
      if (indent) {
        event.preventDefault();
        this.insert(`\n${indent}`);
      }
    } else if (event.key !== "Tab") {
      this.tabLeaves = false;
    }
  }

  /** Shows the completions at the cursor. Without a request, only while a word is being written. */
  offer(isRequested) {
    const position = this.area.selectionStart;
    if (!this.completer || position !== this.area.selectionEnd) return this.closeList();
    const found = this.completer.complete(this.text, position);
    const isWord = found && (position > found.from || /["{[,=]\s?$/.test(this.text.slice(0, position)));
    const isComplete = found?.options.length === 1 && found.options[0].name === this.text.slice(found.from, position);
    if (!found || found.options.length === 0 || isComplete || !(isRequested || isWord)) return this.closeList();
    this.options = found.options;
    this.replaceFrom = found.from;
    this.list.replaceChildren(...this.options.map((option, index) => element("div", {
      id: `completion-${index}`, class: "option", role: "option", "aria-selected": "false",
      on: { mousedown: (event) => { event.preventDefault(); this.accept(index); } },
    }, option.name, element("small", {}, option.detail ?? ""))));
    this.place(position);
    this.list.hidden = false;
    this.select(0);
  }

  /** Places the list below the cursor, or above it if there is no room. */
  place(position) {
    const lines = this.text.slice(0, position).split("\n");
    const context = (this.canvas ??= document.createElement("canvas")).getContext("2d");
    context.font = getComputedStyle(this.area).font;
    const column = context.measureText(lines[lines.length - 1]).width;
    const top = PADDING.top + lines.length * LINE_HEIGHT - this.area.scrollTop;
    const height = Math.min(190, this.options.length * 21 + 4);
    const fits = top + height <= this.area.clientHeight || top < height + LINE_HEIGHT;
    this.list.style.top = `${fits ? top : top - LINE_HEIGHT - height}px`;
    this.list.style.left = `${Math.max(0, Math.min(PADDING.left + column - this.area.scrollLeft, this.area.clientWidth - 220))}px`;
    this.list.style.maxHeight = `${fits ? Math.max(84, Math.min(190, this.area.clientHeight - top)) : 190}px`;
  }

  select(index) {
    this.selected = (index + this.options.length) % this.options.length;
    for (const [position, option] of [...this.list.children].entries()) {
      option.setAttribute("aria-selected", String(position === this.selected));
    }
    this.area.setAttribute("aria-activedescendant", `completion-${this.selected}`);
    // `scrollIntoView` would also scroll the editor.
    const option = this.list.children[this.selected];
    const bottom = option.offsetTop + option.offsetHeight - this.list.clientHeight;
    this.list.scrollTop = Math.max(bottom, Math.min(this.list.scrollTop, option.offsetTop));
  }

  accept(index) {
    const option = this.options[index];
    this.closeList();
    this.insert(option.insert, this.replaceFrom);
    if (option.insert.endsWith("= ")) this.offer(true);
  }

  closeList() {
    this.list.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
  }
}
