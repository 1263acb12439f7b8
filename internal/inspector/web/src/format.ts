/** Texts of times, sizes and numbers. */

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const numbers = new Intl.NumberFormat();

/** timeOf is the time of day, with the day if it is another one than today. */
export function timeOf(milliseconds: number, now = Date.now()): string {
  const at = new Date(milliseconds);
  const today = at.toDateString() === new Date(now).toDateString();
  return today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

/** exactTime is a time in ISO form, with milliseconds. */
export function exactTime(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** durationOf is a duration with two digits that matter: 340 ms, 1.2 s, 3 min 20 s. */
export function durationOf(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.trunc(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.trunc(hours / 24)} days`;
}

/** count is a number with its noun. */
export function count(n: number, noun: string): string {
  return `${numbers.format(n)} ${noun}${n === 1 ? "" : "s"}`;
}

const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** tokensOf is the number of tokens in a list of usage, in few characters. */
export function tokensOf(usage: readonly { input: number; output: number }[]): string {
  return short.format(usage.reduce((sum, u) => sum + u.input + u.output, 0));
}

/** costOf is an amount of money: with cents, or with the first two digits of less than one. */
export function costOf(of: { cost?: string; currency?: string; costAtLeast?: boolean }): string {
  const amount = Number(of.cost);
  const digits = amount >= 0.01 || amount === 0 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumSignificantDigits: 2 };
  let text = `${of.cost} ${of.currency ?? ""}`;
  try {
    text = new Intl.NumberFormat(undefined, { style: "currency", currency: of.currency ?? "USD", ...digits }).format(amount);
  } catch {
    // The currency is a text of a producer.
  }
  return of.costAtLeast === true ? `≥ ${text}` : text;
}

/** bytesOf is the size of a text in UTF-8. */
export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** oneLine returns a text without line breaks, control and bidirectional characters. */
export function oneLine(text: string): string {
  return text.replace(/[\s\p{Cc}\p{Cf}]+/gu, " ");
}

/** shorten returns one line of at most a number of characters. */
export function shorten(text: string, length = 160): string {
  const line = oneLine(text.slice(0, 4 * length)).trim();
  const characters = [...line];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : line;
}
