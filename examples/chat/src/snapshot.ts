import type { UIMessage } from 'ai';
import { authorization, forget } from './token';

// Snapshot is the current state of a chat without the answer in progress, which comes from the stream.
export type Snapshot = {
  messages: UIMessage[];
  streamSequence: number; // where the stream continues
  status: 'active' | 'paused' | 'ended' | 'failed';
  error?: { message: string }; // of a failed run
};

const nothingYet: Snapshot = { messages: [], streamSequence: 0, status: 'ended' };

export async function loadSnapshot(id: string, signal?: AbortSignal): Promise<Snapshot> {
  const response = await fetch(`/api/chat/${encodeURIComponent(id)}/snapshot`, { signal, headers: await authorization() });
  if (response.status === 401) forget();
  if (response.status === 404) return nothingYet;
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}
