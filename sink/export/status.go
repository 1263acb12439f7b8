package export

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StatusError returns the error of a response whose status is not a success: a *RetryError with the delay that the receiver asks for, or a *RefusedError for a
// status that says that the content is not acceptable. 401, 403, 404, 405 and redirects are faults of the settings and not of the rows: they are tried again.
func StatusError(res *http.Response) error {
	err := fmt.Errorf("response %s", strings.TrimSpace(strconv.Itoa(res.StatusCode)+" "+http.StatusText(res.StatusCode)))
	switch s := res.StatusCode; s {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return &RetryError{After: retryAfter(res.Header), Cause: err}
	default:
		if s/100 == 4 {
			return &RefusedError{Cause: err}
		}
		return &RetryError{After: retryAfter(res.Header), Cause: err}
	}
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
