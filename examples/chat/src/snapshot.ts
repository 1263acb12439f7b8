import type { UIMessage } from 'ai';

// Snapshot is a chat as of now, without the answer that is on its way: all of
// that comes from the stream.
export type Snapshot = {
  messages: UIMessage[];
  streamSequence: number; // where the stream goes on
  status: 'active' | 'paused' | 'ended' | 'failed';
  error?: { message: string }; // of a failed one
};

const nothingYet: Snapshot = { messages: [], streamSequence: 0, status: 'ended' };

export async function loadSnapshot(id: string, signal?: AbortSignal): Promise<Snapshot> {
  const response = await fetch(`/api/chat/${id}/snapshot`, { signal });
  if (response.status === 404) return nothingYet;
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}
