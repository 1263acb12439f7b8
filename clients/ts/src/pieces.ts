/** The pieces of a response: the body of a fetch, or what a program reads. */
export type PieceSource = ReadableStream<Uint8Array | string> | AsyncIterable<Uint8Array | string>;

/** Whether a request can be sent while its body is produced: browsers cannot, over HTTP/1.1. */
export const canStream = !("window" in globalThis) && !("importScripts" in globalThis);

/** Pieces keeps what was read of a source, so that it can be sent again. */
export class Pieces {
  private readonly read: Uint8Array[] = [];
  private readonly next: () => Promise<IteratorResult<Uint8Array | string>>;
  private readonly stop: () => Promise<unknown>;
  private complete = false;
  private failure: { error: unknown } | undefined;
  private reading: Promise<void> | undefined;

  constructor(source: PieceSource) {
    if (source instanceof ReadableStream) {
      const reader = source.getReader();
      this.next = async () => (await reader.read()) as IteratorResult<Uint8Array | string>;
      this.stop = () => reader.cancel();
    } else {
      const iterator = source[Symbol.asyncIterator]();
      this.next = () => iterator.next();
      this.stop = async () => iterator.return?.();
    }
  }

  /** body returns all pieces from the first one, as the body of a request. onPiece is called for each. */
  body(onPiece: () => void): BodyInit {
    if (!canStream) return new Blob(this.read as BlobPart[]);
    let i = 0;
    return new ReadableStream<Uint8Array>({
      pull: async (to) => {
        const piece = await this.at(i++);
        onPiece();
        if (piece === undefined) to.close();
        else to.enqueue(piece);
      },
    });
  }

  /** all reads the source to its end. */
  async all(): Promise<void> {
    while ((await this.at(this.read.length)) !== undefined);
  }

  /** check throws the error of the source. */
  check(): void {
    if (this.failure !== undefined) throw this.failure.error;
  }

  /** close ends the source. */
  async close(): Promise<void> {
    if (!this.complete) await this.stop().catch(() => undefined); // the caller has an error already
  }

  /** at returns a piece, undefined after the last one. */
  private async at(i: number): Promise<Uint8Array | undefined> {
    while (i >= this.read.length && !this.complete) {
      // A request that was given up may still wait for the same piece.
      this.reading ??= this.more().finally(() => (this.reading = undefined));
      await this.reading;
      this.check();
    }
    return this.read[i];
  }

  private async more(): Promise<void> {
    try {
      const { done, value } = await this.next();
      if (done === true) this.complete = true;
      else this.read.push(typeof value === "string" ? new TextEncoder().encode(value) : value);
    } catch (error) {
      this.failure = { error };
      this.complete = true;
    }
  }
}
