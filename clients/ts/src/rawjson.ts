/** The members of a JSON object as they are written: numbers keep their digits, and objects the order of their members. */
export function rawMembers(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = skipSpace(text, 0);
  if (text[at] !== "{") return members;
  for (at = skipSpace(text, at + 1); text[at] === '"'; at = skipSpace(text, at + 1)) {
    const nameEnd = endOfString(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1); // behind the colon
    const end = endOfValue(text, start);
    members.set(name, text.slice(start, end));
    at = skipSpace(text, end);
    if (text[at] !== ",") break;
  }
  return members;
}

/** The elements of a JSON array as they are written. */
export function rawElements(text: string): string[] {
  const elements: string[] = [];
  let at = skipSpace(text, 0);
  if (text[at] !== "[") return elements;
  for (at = skipSpace(text, at + 1); at < text.length && text[at] !== "]"; at = skipSpace(text, at + 1)) {
    const end = endOfValue(text, at);
    elements.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] !== ",") break;
  }
  return elements;
}

/** indentJSON returns JSON with line breaks and two spaces for each level. Its values are not changed. */
export function indentJSON(text: string): string {
  const out: string[] = [];
  let level = 0;
  const newLine = () => out.push("\n", "  ".repeat(level));
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const c = text[at];
    if (c === "{" || c === "[") {
      const next = skipSpace(text, at + 1);
      if (text[next] === "}" || text[next] === "]") {
        out.push(c, text[next] ?? "");
        at = next + 1;
        continue;
      }
      out.push(c);
      level++;
      newLine();
      at++;
    } else if (c === "}" || c === "]") {
      level--;
      newLine();
      out.push(c);
      at++;
    } else if (c === ",") {
      out.push(c);
      newLine();
      at++;
    } else if (c === ":") {
      out.push(": ");
      at++;
    } else {
      const end = endOfValue(text, at);
      out.push(text.slice(at, end));
      at = end;
    }
  }
  return out.join("");
}

function skipSpace(text: string, at: number): number {
  while (at < text.length && " \t\r\n".includes(text[at] ?? "")) at++;
  return at;
}

/** endOfString returns the position behind a string that begins at a quotation mark. */
function endOfString(text: string, at: number): number {
  for (at++; at < text.length && text[at] !== '"'; at++) {
    if (text[at] === "\\") at++;
  }
  return Math.min(at + 1, text.length);
}

/** endOfValue returns the position behind a value. It is longer than at for any text, so that callers make progress. */
function endOfValue(text: string, at: number): number {
  let level = 0;
  for (let i = at; i < text.length; ) {
    const c = text[i] ?? "";
    if (c === '"') {
      i = endOfString(text, i);
    } else if (c === "{" || c === "[") {
      level++;
      i++;
      continue;
    } else if (c === "}" || c === "]") {
      if (level === 0) return Math.max(i, at + 1);
      level--;
      i++;
    } else if (level > 0) {
      i++;
      continue;
    } else {
      while (i < text.length && !",:]} \t\r\n".includes(text[i] ?? "")) i++;
      return Math.max(i, at + 1);
    }
    if (level === 0) return i;
  }
  return text.length;
}
