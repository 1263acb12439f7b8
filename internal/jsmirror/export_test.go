package jsmirror

import "time"

// SetTimeouts replaces the timeouts, for a machine that may be too busy to respond in time. It is called before the Log is used.
func (l *Log) SetTimeouts(d time.Duration) {
	for _, m := range l.mirrors {
		m.timeouts = timeouts{request: d, catchUp: 2 * d}
	}
}
