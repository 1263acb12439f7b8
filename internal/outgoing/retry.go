package outgoing

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/internal/wait"
)

// Retry configures the retries of one request. In every field 0 means the default, and a negative number Off.
type Retry struct {
	// Attempts is the maximum number of attempts, the first included. Defaults to 5; Off makes one.
	Attempts int

	// InitialDelay is the delay before the second attempt. Each further delay is twice as long, up to MaxDelay, minus a random part of up to a half. They
	// default to 500 ms and 20 s; Off retries at once.
	InitialDelay, MaxDelay time.Duration

	// MaxRetryAfter is the longest delay that the endpoint may request (Retry-After); a longer one ends the retries. Defaults to 1 minute; Off ends them at
	// any requested delay.
	MaxRetryAfter time.Duration
}

// WithDefaults returns r with the defaults instead of 0, and without negative numbers.
func (r Retry) WithDefaults() Retry {
	return Retry{
		Attempts:      max(1, cmp.Or(r.Attempts, 5)),
		InitialDelay:  max(0, cmp.Or(r.InitialDelay, 500*time.Millisecond)),
		MaxDelay:      max(0, cmp.Or(r.MaxDelay, 20*time.Second)),
		MaxRetryAfter: max(0, cmp.Or(r.MaxRetryAfter, time.Minute)),
	}
}

// Next returns the delay of the next attempt after n failed ones, and false if there is none. requested is the delay that the last response requests, 0 for none.
func (r Retry) Next(n int, requested time.Duration) (delay time.Duration, ok bool) {
	if n >= r.Attempts || requested > r.MaxRetryAfter {
		return 0, false
	}
	backoff := wait.Backoff{First: r.InitialDelay, Max: r.MaxDelay, Jitter: true}
	return max(backoff.Delay(n), requested), true
}

// RetryAfter returns the delay that a response requests, in numbers at most a day, 0 for none.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	const day = float64(24 * time.Hour)
	text := h.Get("Retry-After")
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms*float64(time.Millisecond), day))
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 {
		return time.Duration(min(s*float64(time.Second), day))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
