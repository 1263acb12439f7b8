package hub

import "time"

// maxRound is how long a topic waits for the readers of its last wake-up before it wakes the others again.
const maxRound = 5 * time.Millisecond

// wakeups wakes the cursors that wait for a change of a topic, all at once, and not again before they have polled: a cursor takes all that has come
// meanwhile with one call. Without that, the first of many cursors are woken for the next record while the last ones still wait for a processor. A cursor
// whose client reads slowly holds the others back for maxRound at most. The lock of the topic guards it.
type wakeups struct {
	next     chan struct{} // closed by the next wake-up; nil if no cursor waits
	waiting  int           // cursors that wait for next
	number   int           // of wake-ups so far
	left     int           // cursors of the last wake-up that have not polled since
	at       time.Time     // of the last wake-up
	withheld *time.Timer   // wakes the cursors that wait for next although left is not 0; nil if nothing has changed since the last wake-up
}

// wait returns the channel of the next wake-up, for a cursor that has found no records under the same lock, so it cannot miss a change.
func (w *wakeups) wait(c *Cursor) <-chan struct{} {
	if w.next == nil {
		w.next = make(chan struct{})
	}
	w.waiting++
	c.wakeup = w.number + 1
	return w.next
}

// polled ends the wait of a cursor that polls, or that leaves.
func (w *wakeups) polled(c *Cursor) {
	switch c.wakeup {
	case w.number + 1:
		w.waiting--
	case w.number:
		if w.left > 0 {
			if w.left--; w.left == 0 && w.withheld != nil {
				w.wake()
			}
		}
	}
	c.wakeup = 0
}

func (w *wakeups) wake() {
	if w.withheld != nil {
		w.withheld.Stop()
		w.withheld = nil
	}
	if w.next == nil {
		return
	}
	close(w.next)
	w.next = nil
	w.left, w.waiting = w.waiting, 0
	w.number++
	w.at = time.Now()
}

// changed wakes the cursors that wait: now, or when those of the last wake-up have polled.
func (t *topic) changed() {
	w := &t.wakeups
	switch {
	case w.next == nil || w.withheld != nil:
	case w.left == 0 || time.Since(w.at) >= maxRound:
		w.wake()
	default:
		w.withheld = time.AfterFunc(maxRound-time.Since(w.at), t.wakeWithheld)
	}
}

func (t *topic) wakeWithheld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakeups.withheld != nil {
		t.wakeups.wake()
	}
}
