/** A server-sent event. */
export interface ServerSentEvent {
  /** The id line, undefined without one. */
  id: string | undefined;
  /** The data lines, joined with line feeds; undefined without one. */
  data: string | undefined;
}

/**
 * A parser of an event stream in pieces of any size. An event is returned when its blank line has arrived: one that a connection has cut is incomplete, and its id
 * must not become the cursor.
 */
export class EventParser {
  /** The reconnect delay that the server asked for, in milliseconds. */
  retry: number | undefined;

  private readonly decoder = new TextDecoder();
  private rest: string[] = []; // of an unfinished line
  private skipLineFeed = false; // the last line ended with CR
  private id: string | undefined;
  private data: string[] = [];

  /** push parses bytes and returns the events that they complete. */
  push(bytes: Uint8Array): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    let text = this.decoder.decode(bytes, { stream: true });
    if (this.skipLineFeed && text !== "") {
      this.skipLineFeed = false;
      if (text.startsWith("\n")) text = text.slice(1);
    }
    let start = 0;
    const ends = /\r\n|\r|\n/g;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.rest.push(text.slice(start, end.index));
      start = ends.lastIndex;
      if (end[0] === "\r" && start === text.length) this.skipLineFeed = true;
      this.line(this.rest.join(""), events);
      this.rest = [];
    }
    if (start < text.length) this.rest.push(text.slice(start));
    return events;
  }

  private line(line: string, events: ServerSentEvent[]): void {
    if (line === "") {
      if (this.id !== undefined || this.data.length > 0) {
        events.push({ id: this.id, data: this.data.length > 0 ? this.data.join("\n") : undefined });
      }
      this.id = undefined;
      this.data = [];
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    switch (name) {
      case "id":
        this.id = value;
        break;
      case "data":
        this.data.push(value);
        break;
      case "retry":
        if (/^[0-9]+$/.test(value)) this.retry = Number(value);
        break;
      default: // a comment, which keeps the connection open, or another field
    }
  }
}
