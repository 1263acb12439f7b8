package export

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// StatusError returns the error of a response whose status is not a success: a *RefusedError for a status from 400 to 499 that is not in again, and otherwise a
// *RetryError with the delay that the receiver asks for. 408 and 429 are tried again always.
func StatusError(res *http.Response, again ...int) error {
	err := fmt.Errorf("response %s", strings.TrimSpace(strconv.Itoa(res.StatusCode)+" "+http.StatusText(res.StatusCode)))
	s := res.StatusCode
	if s/100 != 4 || s == http.StatusRequestTimeout || s == http.StatusTooManyRequests || slices.Contains(again, s) {
		return &RetryError{After: retryAfter(res.Header), Cause: err}
	}
	return &RefusedError{Cause: err}
}

// retryAfter returns the delay of the header Retry-After, 0 for none: a number of seconds or a date.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	const longest = 7 * 24 * 60 * 60
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, longest)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
