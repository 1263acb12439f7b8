/** The pieces of a response: the body of a fetch, or what a program reads. */
export type PieceSource = ReadableStream<Uint8Array | string> | AsyncIterable<Uint8Array | string>;

/** Whether a request can be sent while its body is produced: browsers cannot, over HTTP/1.1. */
const canStream = !("window" in globalThis) && !("importScripts" in globalThis);

/** check throws the error of a stream that has failed. */
export async function check(source: ReadableStream): Promise<void> {
  const reader = source.getReader();
  await Promise.race([reader.closed, 0]);
  reader.releaseLock();
}

/** bytesOf returns the pieces of a source. */
export function bytesOf(source: PieceSource): ReadableStream<Uint8Array> {
  const bytes = new TransformStream<Uint8Array | string, Uint8Array>({
    transform: (piece, to) => to.enqueue(typeof piece === "string" ? new TextEncoder().encode(piece) : piece),
  });
  if (source instanceof ReadableStream) return source.pipeThrough(bytes);
  const iterator = source[Symbol.asyncIterator]();
  const pull = async (to: ReadableStreamDefaultController<Uint8Array | string>) => {
    const { done, value } = await iterator.next();
    if (done === true) to.close();
    else to.enqueue(value);
  };
  return new ReadableStream({ pull, cancel: async () => void (await iterator.return?.()) }).pipeThrough(bytes);
}

/** upload returns pieces as the body of a request. onPiece is called for each. */
export function upload(pieces: ReadableStream<Uint8Array>, onPiece: () => void): BodyInit | Promise<BodyInit> {
  const counted = new TransformStream<Uint8Array, Uint8Array>({ transform: (piece, to) => (onPiece(), to.enqueue(piece)) });
  return canStream ? pieces.pipeThrough(counted) : new Response(pieces).blob();
}
