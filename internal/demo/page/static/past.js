// The sessions that this browser started, newest first. A browser without storage (private windows, blocked
// storage) has none.

const key = 'tailrace.sessions';
const most = 20;

export function list() {
  try {
    const sessions = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(sessions) ? sessions.filter((s) => s && typeof s.id === 'string' && typeof s.title === 'string') : [];
  } catch {
    return [];
  }
}

export function remember(id, title) {
  save([{ id, title, at: Date.now() }, ...list().filter((s) => s.id !== id)].slice(0, most));
}

export function forget() {
  save([]);
}

export function titleOf(id) {
  return list().find((s) => s.id === id)?.title ?? '';
}

// isFresh reports whether a session was requested so recently that its run may not have started.
export function isFresh(id) {
  const session = list().find((s) => s.id === id);
  return session !== undefined && Date.now() - session.at < 120_000;
}

function save(sessions) {
  try {
    localStorage.setItem(key, JSON.stringify(sessions));
  } catch {
    // storage is unavailable
  }
}
