package ingest

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/ingestion"
)

// The codes in addition to those of httpkit. They are part of the wire and do not change.
const (
	codeNoRun      = "NO_RUN"
	codeOpen       = "RUN_OPEN"
	codeFenced     = "FENCED"
	codeSuperseded = "SUPERSEDED"
	codeFirstLine  = "WRONG_FIRST_LINE"
	codeEnded      = "RUN_ENDED"
	codePaused     = "RUN_PAUSED"
	codeLine       = "INVALID_LINE"
	codeDialect    = "WRONG_DIALECT"
	codeType       = "UNKNOWN_TYPE"
	codeLineSize   = "LINE_TOO_LARGE"
	codeExpired    = "CREDENTIAL_EXPIRED"
	codeRevoked    = "CREDENTIAL_REVOKED"
	codeAge        = "TOO_OLD"
	codeCut        = "BODY_CUT"
)

var (
	badID       = httpkit.Invalid("session: want 1 to 64 characters of a URI; run: want 1 to 64 letters, digits, - or _")
	noRun       = httpkit.NewProblem(http.StatusNotFound, codeNoRun, "there is no such run", "open it with POST /v1/sessions/{id}/runs")
	unavailable = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "the log cannot be reached at present", "send again what is not stored")
	draining    = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeDraining, "this server is being stopped", "send again what is not stored")
	superseded  = httpkit.NewProblem(http.StatusConflict, codeSuperseded, "a later request writes this run", "")
	cut         = httpkit.NewProblem(http.StatusBadRequest, codeCut, "the body ended before its end", "send again what is not stored")
	revoked     = httpkit.NewProblem(http.StatusUnauthorized, codeRevoked, "the credential is revoked", "")
	expired     = httpkit.NewProblem(http.StatusUnauthorized, codeExpired, "the credential expires", "send again what is not stored, with a new one")
	tooOld      = httpkit.NewProblem(http.StatusServiceUnavailable, codeAge, "the request has reached its largest age", "send again what is not stored")
	media       = httpkit.NewProblem(http.StatusUnsupportedMediaType, httpkit.CodeMedia, "want Content-Type application/x-ndjson or text/event-stream, in UTF-8 and without Content-Encoding", "")
	lineTooLong = httpkit.NewProblem(http.StatusRequestEntityTooLarge, codeLineSize, "the line is too large", "")
)

// problems has the problems of refusals.
var problems = map[ingestion.Reason]*httpkit.Problem{
	ingestion.ReasonNoRun:      noRun,
	ingestion.ReasonOpen:       httpkit.NewProblem(http.StatusConflict, codeOpen, "another run of the session is open", `wait for its end, or take over with "takeOver": true`),
	ingestion.ReasonFenced:     httpkit.NewProblem(http.StatusConflict, codeFenced, "another run of the session has begun", ""),
	ingestion.ReasonSuperseded: superseded,
	ingestion.ReasonFirstLine:  httpkit.NewProblem(http.StatusConflict, codeFirstLine, "the body begins with the wrong line", "send it from the line that this problem has"),
	ingestion.ReasonEnded:      httpkit.NewProblem(http.StatusConflict, codeEnded, "the run has ended", ""),
	ingestion.ReasonPaused:     httpkit.NewProblem(http.StatusConflict, codePaused, "the run is paused", "a stream_active line continues it"),
	ingestion.ReasonInvalid:    httpkit.NewProblem(http.StatusBadRequest, codeLine, "a line is not what the run takes", ""),
	ingestion.ReasonTooLarge:   lineTooLong,
	ingestion.ReasonLimit:      httpkit.SessionFull,
	ingestion.ReasonNoStorage:  httpkit.NoStorage,
	ingestion.ReasonDialect:    httpkit.Invalid("there is no such dialect"),

	ingestion.ReasonOtherDialect: httpkit.NewProblem(http.StatusBadRequest, codeDialect, "the lines are not of this dialect", ""),
	ingestion.ReasonType:         httpkit.NewProblem(http.StatusBadRequest, codeType, "there is no chunk of this type", ""),
}

// problemOf returns the problem of an error of ingestion.Runs, nil for none.
func problemOf(err error) *httpkit.Problem {
	if err == nil {
		return nil
	}
	r, ok := errors.AsType[*ingestion.RefusalError](err)
	if !ok {
		return httpkit.PermissionOr(err, unavailable)
	}
	p, ok := problems[r.Reason]
	switch {
	case !ok:
		return httpkit.PermissionOr(err, unavailable)
	case r.Reason == ingestion.ReasonInvalid && r.Line == 0:
		return httpkit.Invalid(r.Text)
	}
	more := map[string]any{}
	if r.Line > 0 {
		more["line"] = r.Line
	}
	if r.Epoch > 0 {
		more["epoch"] = r.Epoch
	}
	if r.Run != "" {
		more["runId"] = r.Run
	}
	if r.Nearest != "" {
		more["nearest"] = r.Nearest
	}
	if r.Reason == ingestion.ReasonDialect || r.Reason == ingestion.ReasonOtherDialect {
		more["want"] = dialect.Names()
	}
	text := r.Text
	if r.Reason == ingestion.ReasonType {
		text = fmt.Sprintf("line %d: %s", r.Line, text)
	}
	return with(p, text, more)
}

// with returns p with a detail, "" for its own, and more members.
func with(p *httpkit.Problem, detail string, more map[string]any) *httpkit.Problem {
	q := *p
	if detail != "" {
		q.Detail = detail
	}
	q.More = more
	return &q
}
