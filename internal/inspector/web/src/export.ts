import type { LogRecord } from "../../../../clients/ts/src/outline.js";

/** The id of the element that has the session in an exported file. */
const place = "stored-session";

/** A session in a file. */
export interface Stored {
  session: string;
  /** The name of the view under which the records were read, "" for everything. */
  view: string;
  /** The position, 0 for the end. */
  at: number;
  /** When the file was made, in Unix milliseconds. */
  saved: number;
  /** The sequence up to which the file has no records, 0 if it has all. */
  forgotten: number;
  records: readonly LogRecord[];
}

/** storedHere returns the session of the file that this page is, undefined for a page of a server. */
export function storedHere(): Stored | undefined {
  const text = document.getElementById(place)?.textContent;
  return text ? (JSON.parse(text) as Stored) : undefined;
}

/** canHash reports whether the browser computes hashes here: it does not for a page of another host without TLS. */
export function canHash(): boolean {
  return isSecureContext && crypto.subtle !== undefined;
}

/** fileOf returns an HTML file that shows a session with the script and the style of this page, and loads nothing. Its policy allows these two and nothing else. */
export async function fileOf(stored: Stored, script: string, style: string): Promise<Blob> {
  if (/<\/script|<!-{2}/i.test(script) || /<\/style/i.test(style)) throw new Error("The page cannot be put into a file.");
  const policy = [
    "default-src 'none'", `script-src '${await hashOf(script)}'`, `style-src '${await hashOf(style)}'`, "img-src data:", "base-uri 'none'", "form-action 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
  ].join("; ");
  const head = [
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">', `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">', `<title>${escapeText(stored.session)}, Tailrace</title>`, `<style>${style}</style>`,
    `</head><body><div id="app"></div><script type="application/json" id="${place}">`,
  ];
  return new Blob([...head, dataOf(stored), '</script><script type="module">', script, "</script></body></html>\n"], { type: "text/html" });
}

/** dataOf is JSON in which no text ends the element that has it: the character that begins a tag is in strings only, where an escape is the same. */
export function dataOf(stored: Stored): string {
  return JSON.stringify(stored).replaceAll("<", "\\u003c");
}

function escapeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

async function hashOf(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `sha256-${btoa(String.fromCharCode(...hash))}`;
}

/** linesOf returns records as JSON lines, each with its bytes. */
export function linesOf(records: readonly LogRecord[]): Blob {
  const lines = records.map(({ data, ...envelope }) => `${JSON.stringify(envelope).slice(0, -1)},"data":${data}}\n`);
  return new Blob(lines, { type: "application/jsonl" });
}

/** save saves a file. */
export function save(name: string, file: Blob): void {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(file);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}
