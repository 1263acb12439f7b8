package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/commands"
)

// metrics is what a Service counts. Labels have few values, all of them ours: no
// chat, no agent, no tenant. A nil *metrics counts nothing; that is what a Service
// without Config.Metrics has. Requests by route and status are the Edge's to count,
// see sseedge.Edge.Counted.
type metrics struct {
	streams     prometheus.GaugeFunc
	bodies      prometheus.GaugeFunc
	posts       *prometheus.CounterVec
	resumes     *prometheus.CounterVec
	disconnects *prometheus.CounterVec
	answers     *prometheus.CounterVec
	commands    *prometheus.CounterVec
	frame       prometheus.Histogram
	begun       prometheus.Histogram
}

// newMetrics registers the metrics of a Service.
func newMetrics(reg prometheus.Registerer, s *Service) (*metrics, error) {
	m := &metrics{
		streams: gauge("streams", "Chat responses that are open.", func() float64 { return float64(s.open.count()) }),
		bodies:  gauge("body_bytes", "Memory of requests that are being read.", func() float64 { return float64(s.cfg.Bodies.Held()) }),
		posts: counters("posts_total", "outcome",
			"POSTs of messages by what was done: execute or resume (a run was asked for, also if it had been before), submit (answers were stored), abandon, sweep, or nothing but to show (attach, replay, up_to_date, rejection); or the code of the refusal.", postOutcomes),
		resumes: counters("resumes_total", "outcome",
			"GETs of pages that come back: whole (from the start of the answer), tail (from where the page was), nothing (204), or the code of the refusal.", resumeOutcomes),
		disconnects: counters("disconnects_total", "reason",
			"Chat responses that are over: end (cleanly), client (it left), slow, drain or error.", endings),
		answers: counters("answers_total", "outcome",
			"Answers of people to calls: accepted, already_answered or call_expired (there is another one), rejected (nothing waits for it).", answerOutcomes),
		commands: counters("commands_total", "outcome",
			"Commands that were asked for: requested (also again), busy (somebody was faster) or failed.", commandOutcomes),
		frame: histogram("first_frame_seconds", "From when a POST had been read to when its first frame was written. The message is stored by then."),
		begun: histogram("first_answer_seconds", "From when a POST that asked for a run had been read to when the first frame of that run was written: the wait for a worker is in it."),
	}
	if err := reg.Register(m); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

// The values of the labels, there from the start, so that the first event of a
// kind is a rise and not a beginning.
var (
	postOutcomes = append([]string{
		label(PathExecute), label(PathResume), label(PathSubmit), label(PathAbandon), label(PathSweep),
		label(PathAttach), label(PathReplay), label(PathUpToDate), label(PathRejection),
		codeLabel(running), codeLabel(noRoom), codeLabel(slowBody), codeLabel(bodyTooLarge), codeLabel(unsupportedMedia), codeLabel(badID),
		codeLabel(noChat), strings.ToLower(codeAnswered), strings.ToLower(codeExpiredCall),
	}, streamOutcomes...)
	resumeOutcomes = append([]string{resumeWhole, resumeTail, resumeNothing, codeLabel(badID)}, streamOutcomes...)
	streamOutcomes = []string{
		codeLabel(unavailable), codeLabel(draining), codeLabel(lost), codeLabel(notStreaming), codeLabel(internal),
		"too_many_streams", "too_many_streams_of_tenant", "too_many_streams_of_address", "too_many_streams_of_session",
	}
	endings         = []string{endClean, endClient, endSlow, endDrain, endError}
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

// codeLabel is the code of a refusal as a label.
func codeLabel(p *Problem) string { return strings.ToLower(p.Code) }

// label is a path as one.
func label(p Path) string {
	if p == PathUpToDate {
		return "up_to_date"
	}
	return string(p)
}

func (m *metrics) posted(outcome string) {
	if m != nil {
		m.posts.WithLabelValues(outcome).Inc()
	}
}

func (m *metrics) resumed(outcome string) {
	if m != nil {
		m.resumes.WithLabelValues(outcome).Inc()
	}
}

// accepted counts an answer of a person that was stored.
func (m *metrics) accepted() {
	if m != nil {
		m.answers.WithLabelValues(answerAccepted).Inc()
	}
}

// refused counts an answer that is refused because there is another one.
func (m *metrics) refused(p *Problem) {
	if m != nil && p.First != nil {
		m.answers.WithLabelValues(codeLabel(p)).Inc()
	}
}

func (m *metrics) requested(err error) {
	if m == nil {
		return
	}
	outcome := commandRequested
	switch {
	case errors.Is(err, commands.ErrBusy):
		outcome = commandBusy
	case err != nil:
		outcome = commandFailed
	}
	m.commands.WithLabelValues(outcome).Inc()
}

// account is what comes of one request for a stream.
type account struct {
	m        *metrics // nil counts nothing
	read     time.Time
	post     bool
	outcome  string
	rejected int
	asked    bool // for a run whose first frame is yet to come
	told     bool // a frame was written
}

// account begins one, when the request has been read.
func (m *metrics) account() account { return account{m: m, read: time.Now()} }

// decided is what the request comes to if its stream can be opened.
func (a *account) decided(req *Request, plan *Plan) {
	a.post, a.rejected = req.Post, len(plan.Stream.Rejected)
	switch {
	case !req.Post && plan.Stream.Show == ShowTail:
		a.outcome = resumeTail
	case !req.Post:
		a.outcome = resumeWhole
	case req.did != "":
		a.outcome = label(req.did)
		a.asked = req.did == PathExecute || req.did == PathResume
	default:
		a.outcome = label(plan.Path)
	}
}

func (a *account) opened() {
	if a.m == nil {
		return
	}
	if a.post {
		a.m.posted(a.outcome)
	} else {
		a.m.resumed(a.outcome)
	}
	a.m.answers.WithLabelValues(answerRejected).Add(float64(a.rejected))
}

// sent counts frames that were written; begun says whether the run that the
// request may have asked for was there.
func (a *account) sent(begun bool) {
	if a.m == nil || !a.post {
		return
	}
	if !a.told {
		a.told = true
		a.m.frame.Observe(time.Since(a.read).Seconds())
	}
	if a.asked && begun {
		a.asked = false
		a.m.begun.Observe(time.Since(a.read).Seconds())
	}
}

// close ends it. err is what ended the stream, ctx the context it ran in.
func (a *account) close(ctx context.Context, err error) (reason string) {
	reason = whyEnded(ctx, err)
	if a.m != nil {
		a.m.disconnects.WithLabelValues(reason).Inc()
	}
	return reason
}

// Why a response is over.
const (
	endClean  = "end"
	endClient = "client" // it is gone
	endSlow   = "slow"   // it took nothing for Config.Patience
	endDrain  = "drain"
	endError  = "error" // ours
)

// whyEnded tells the reasons apart. A write that fails ends the context as well,
// so a slow client is looked for before one that is gone. The kernel may be the
// first to find it slow.
func whyEnded(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return endClean
	case errors.Is(context.Cause(ctx), errDrained):
		return endDrain
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return endSlow
	case ctx.Err() != nil:
		return endClient
	}
	return endError
}

// levelOf is loud for what somebody should know of.
func levelOf(reason string) slog.Level {
	if reason == endSlow || reason == endError {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Describe and Collect make it one prometheus.Collector, which is registered as
// a whole or not at all.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, part := range m.parts() {
		part.Describe(ch)
	}
}

// Collect is Collector's.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, part := range m.parts() {
		part.Collect(ch)
	}
}

func (m *metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{m.streams, m.bodies, m.posts, m.resumes, m.disconnects, m.answers, m.commands, m.frame, m.begun}
}

// seconds are the buckets of all durations, as the Edge has them.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "tailrace", Subsystem: "chat", Name: name, Help: help}
}

func gauge(name, help string, value func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), value)
}

func counters(name, label, help string, values []string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), []string{label})
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return vec
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "tailrace", Subsystem: "chat", Name: name, Help: help, Buckets: seconds})
}
