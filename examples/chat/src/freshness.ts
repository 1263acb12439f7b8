import { useEffect } from 'react';
import type { Cursor } from './cursor';
import { loadSnapshot } from './snapshot';

// useFreshness looks whether the chat has gone on elsewhere, in another tab or on
// another device, whenever somebody comes back to the page.
export function useFreshness(id: string, cursor: Cursor, idle: boolean, reload: () => void) {
  useEffect(() => {
    if (!idle) return;
    let still = true;
    const look = async () => {
      if (document.visibilityState !== 'visible') return;
      const now = await loadSnapshot(id).catch(() => undefined); // next time, then
      if (still && now && (now.status === 'active' || String(now.streamSequence) !== cursor.id)) reload();
    };
    document.addEventListener('visibilitychange', look);
    return () => {
      still = false;
      document.removeEventListener('visibilitychange', look);
    };
  }, [id, cursor, idle, reload]);
}
