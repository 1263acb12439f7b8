package chat

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// metrics has the metrics of a Service. Labels have few values, which this package defines: no chat, agent or tenant is a label. The Edge counts requests by route
// and status.
type metrics struct {
	streams     prometheus.GaugeFunc
	bodies      prometheus.GaugeFunc
	posts       *prometheus.CounterVec
	resumes     *prometheus.CounterVec
	disconnects *prometheus.CounterVec
	answers     *prometheus.CounterVec
	commands    *prometheus.CounterVec
	waits       prometheus.Counter
	frame       prometheus.Histogram
	begun       prometheus.Histogram
}

// newMetrics returns the metrics of a Service, and registers them unless reg is nil.
func newMetrics(reg prometheus.Registerer, s *Service) (*metrics, error) {
	m := &metrics{
		streams: httpkit.Gauge("chat_streams", "Chat responses that are open.", func() float64 { return float64(s.surface.Streams.Len()) }),
		bodies:  httpkit.Gauge("chat_body_bytes", "Memory of request bodies that are being read.", func() float64 { return float64(s.shared.Bodies.InUse()) }),
		posts: httpkit.Counters("chat_posts_total", "outcome",
			"POSTs of messages by outcome: execute or resume (a run was requested, possibly again), submit (answers were stored), abandon, sweep; queued (the message waits); attach, replay, up_to_date or rejection (a stream only); client (disconnected before the response); or the code of the problem.", postOutcomes),
		resumes: httpkit.Counters("chat_resumes_total", "outcome",
			"GETs of returning pages by outcome: whole (from the start of the answer), tail (from the cursor), nothing (204), client (disconnected before the response), or the code of the problem.", resumeOutcomes),
		disconnects: httpkit.Counters("chat_disconnects_total", "reason",
			"Chat responses that ended, by reason: end (complete), client (disconnected), slow, drain, expired or revoked (the credential), age (TAILRACE_MAX_STREAM_AGE) or error (see the log).", httpkit.EndReasons),
		answers: httpkit.Counters("chat_answers_total", "outcome",
			"User answers to tool calls, by outcome: accepted, already_answered or call_expired (there is another one), rejected (no run waits for it).", answerOutcomes),
		commands: httpkit.Counters("chat_commands_total", "outcome",
			"Requests for commands, by outcome: requested (possibly again), busy (lost the compare-and-set, or the tenant has too many runs) or failed.", commandOutcomes),
		waits: httpkit.Counter("chat_waits_total", "Chat responses whose run no worker had started when the time for data-run-waiting had passed."),
		frame: httpkit.Histogram("chat_first_frame_seconds", "Time from the end of reading a POST to its first frame. The message is stored by then."),
		begun: httpkit.Histogram("chat_first_answer_seconds", "Time from the end of reading a POST that requested a run to the first frame of that run, including the wait for a worker."),
	}
	if reg == nil {
		return m, nil
	}
	all := httpkit.Collectors{m.streams, m.bodies, m.posts, m.resumes, m.disconnects, m.answers, m.commands, m.waits, m.frame, m.begun}
	if err := reg.Register(all); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

// The values of the labels. All of them exist from the start, so that the first event of a kind is an increase from 0 and not a new series.
var (
	postOutcomes = append([]string{
		label(conversation.PathExecute), label(conversation.PathResume), label(conversation.PathSubmit), label(conversation.PathAbandon), label(conversation.PathExpireCalls),
		label(conversation.PathAttach), label(conversation.PathReplay), label(conversation.PathUpToDate), label(conversation.PathRejection),
		running.Label(), httpkit.TooManyBodies.Label(), httpkit.BodyTimeout.Label(), httpkit.BodyTooLarge.Label(), httpkit.UnsupportedMedia.Label(), badID.Label(),
		noChat.Label(), strings.ToLower(codeAnswered), strings.ToLower(codeExpiredCall),
	}, streamOutcomes...)
	resumeOutcomes = append([]string{resumeWhole, resumeTail, resumeNothing, badID.Label(), badCursor.Label()}, streamOutcomes...)
	streamOutcomes = []string{
		httpkit.EndClient, unavailable.Label(), draining.Label(), streamLost.Label(), notStreaming.Label(), httpkit.Internal.Label(),
		"too_many_streams", "too_many_streams_of_tenant", "too_many_streams_of_address", "too_many_streams_of_session",
	}
	answerOutcomes  = []string{answerAccepted, answerRejected, strings.ToLower(codeAnswered), strings.ToLower(codeExpiredCall)}
	commandOutcomes = []string{commandRequested, commandBusy, commandFailed}
)

const (
	resumeWhole   = "whole"
	resumeTail    = "tail"
	resumeNothing = "nothing"

	answerAccepted = "accepted"
	answerRejected = "rejected"

	commandRequested = "requested"
	commandBusy      = "busy"
	commandFailed    = "failed"
)

// label returns the label value of a path.
func label(p conversation.Path) string {
	if p == conversation.PathUpToDate {
		return "up_to_date"
	}
	return string(p)
}

// outcomeOf returns the label of a request that failed. A request whose client has left fails with whatever its context causes.
func outcomeOf(r *http.Request, p *httpkit.Problem) string {
	if p.Status >= http.StatusInternalServerError && r.Context().Err() != nil {
		return httpkit.EndClient
	}
	return p.Label()
}

func (m *metrics) posted(outcome string) { m.posts.WithLabelValues(outcome).Inc() }

func (m *metrics) resumed(outcome string) { m.resumes.WithLabelValues(outcome).Inc() }

// accepted counts an answer of a user that was stored.
func (m *metrics) accepted() { m.answers.WithLabelValues(answerAccepted).Inc() }

// refused counts an answer that is refused because there is another one.
func (m *metrics) refused(r *conversation.Refusal) {
	if r.First != nil {
		m.answers.WithLabelValues(problemOf(r).Label()).Inc()
	}
}

func (m *metrics) requested(err error) {
	outcome := commandRequested
	switch {
	case errors.Is(err, control.ErrBusy), errors.Is(err, control.ErrTooManyRuns):
		outcome = commandBusy
	case err != nil:
		outcome = commandFailed
	}
	m.commands.WithLabelValues(outcome).Inc()
}

// requestCounts collects the metrics of one request for a stream.
type requestCounts struct {
	m        *metrics
	read     time.Time
	post     bool
	outcome  string
	rejected int
	asked    bool // the request starts a run whose first frame was not written yet
	written  bool // a frame was written
}

// newCounts returns the counts of a request that has been read.
func (m *metrics) newCounts() requestCounts { return requestCounts{m: m, read: time.Now()} }

// decided sets the outcome that is counted if the stream can be opened.
func (a *requestCounts) decided(req *conversation.Request, plan *conversation.Plan) {
	a.post, a.rejected = req.Post, len(plan.Stream.Rejected)
	switch {
	case !req.Post && plan.Stream.Show == conversation.ShowTail:
		a.outcome = resumeTail
	case !req.Post:
		a.outcome = resumeWhole
	case req.LastPath != "":
		a.outcome = label(req.LastPath)
		a.asked = req.LastPath == conversation.PathExecute || req.LastPath == conversation.PathResume
	default:
		a.outcome = label(plan.Path)
	}
}

func (a *requestCounts) opened() {
	if a.post {
		a.m.posted(a.outcome)
	} else {
		a.m.resumed(a.outcome)
	}
	a.m.answers.WithLabelValues(answerRejected).Add(float64(a.rejected))
}

// sent counts written frames; begun reports whether the run that the request may have started has begun.
func (a *requestCounts) sent(begun bool) {
	if !a.post {
		return
	}
	if !a.written {
		a.written = true
		a.m.frame.Observe(time.Since(a.read).Seconds())
	}
	if a.asked && begun {
		a.asked = false
		a.m.begun.Observe(time.Since(a.read).Seconds())
	}
}

// closed completes the counts.
func (a *requestCounts) closed(reason string) { a.m.disconnects.WithLabelValues(reason).Inc() }
