/** A log that numbers its records as the server does. */
export class Log {
  records = [];
  ordinals = new Map();

  add(session, type, members = {}, step = 1, time = undefined) {
    const ordinal = (this.ordinals.get(session) ?? 0) + 1;
    this.ordinals.set(session, ordinal);
    const sequence = (this.records.at(-1)?.sequence ?? 0) + 1;
    const data = JSON.stringify({ type, agentId: session, agentType: `a-${session}`, timestamp: 0, step, ...members });
    this.records.push({ sequence, session, ordinal, epoch: 1, time: time ?? 1000 + 10 * sequence, data });
    return this;
  }
}
