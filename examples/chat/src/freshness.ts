import { useEffect } from 'react';
import type { Cursor } from './cursor';
import { loadSnapshot } from './snapshot';

// useFreshness checks, when the page becomes visible, whether the chat was continued in another tab or on
// another device.
export function useFreshness(id: string, cursor: Cursor, idle: boolean, reload: () => void) {
  useEffect(() => {
    if (!idle) return;
    let still = true;
    const look = async () => {
      if (document.visibilityState !== 'visible') return;
      const now = await loadSnapshot(id).catch(() => undefined); // retried next time
      if (still && now && (now.status === 'active' || now.streamSequence !== Number.parseInt(cursor.id, 10))) reload();
    };
    document.addEventListener('visibilitychange', look);
    return () => {
      still = false;
      document.removeEventListener('visibilitychange', look);
    };
  }, [id, cursor, idle, reload]);
}
