package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Act is the kind of an Event. It is a token of subjects.
type Act string

// The acts.
const (
	Message    Act = "message"    // the run of a message was requested
	Regenerate Act = "regenerate" // the run that replaces an answer was requested
	Withdraw   Act = "withdraw"   // a message that waited was withdrawn
	Start      Act = "start"      // the only run of a delegated session was requested
	Resume     Act = "resume"     // a run that continues an interrupted one was requested
	Answer     Act = "answer"     // the result of a call was stored
	Approve    Act = "approve"    // a call was approved
	Deny       Act = "deny"       // a call was denied
	Interrupt  Act = "interrupt"  // a run is to end at its next step
	Abort      Act = "abort"      // a run is to fail
	Delete     Act = "delete"     // a session was deleted
	Fork       Act = "fork"       // a session was continued by another one, the target
	Access     Act = "access"     // an access was refused

	OpenRun      Act = "open-run"     // a run was opened over HTTP, perhaps again
	TakeOverRun  Act = "takeover-run" // likewise, also if another run was open
	EndRun       Act = "end-run"      // a run that was opened over HTTP was ended by a request, perhaps again
	FailRun      Act = "fail-run"
	PauseRun     Act = "pause-run"
	CleanUpRun   Act = "cleanup-run" // chunks of it were removed
	MintToken    Act = "mint-token"
	RevokeToken  Act = "revoke-token" // or all tokens of a subject
	StartCookie  Act = "start-cookie" // a token was exchanged for a cookie
	MintTicket   Act = "mint-ticket"
	RejectAnswer Act = "reject-answer" // a worker did not use an approval: its call has another input than the one that was shown
)

// Outcome is the result of an act.
type Outcome string

// The outcomes.
const (
	Done      Outcome = "done"      // it is stored
	Requested Outcome = "requested" // it is about to be carried out: the event of a required log precedes the act
	Unknown   Outcome = "unknown"   // the server did not respond: it may be stored
	Failed    Outcome = "failed"    // it failed, and a part of it may be done
	Refused   Outcome = "refused"
)

// Event is one act, or a refused access.
type Event struct {
	ID      string // equal for a repetition of the same event, and for no other one
	Time    time.Time
	Act     Act
	Outcome Outcome

	Tenant  string           // "" if the client is not authenticated
	By      *chunk.Principal // nil if it is not known
	Session chunk.Session    // the zero Session for none. Of a refused access it is what the client asked for, which may not exist
	Run     string
	Call    string
	Target  string // of an act for a credential: its id, or the subject

	Route   string // method and path with {id}; "" for a Go program
	Address string // of the client; "" for a Go program

	Status int    // of a refused access: that of the response
	Reason string // of a refused access: the code of the response, or ReasonHidden
	Count  int64  // of several refused accesses that have one event: their number
}

// ReasonHidden is the reason of a refused access to a session that the client must not know: it gets the response of one that does not exist.
const ReasonHidden = "HIDDEN"

// Version is the version of the JSON of an Event.
const Version = 1

// eventJSON is an Event as JSON. Readers ignore unknown members.
type eventJSON struct {
	Version int     `json:"version"`
	Act     Act     `json:"act"`
	Outcome Outcome `json:"outcome"`
	Tenant  string  `json:"tenant,omitempty"`
	Subject string  `json:"subject,omitempty"`
	Issuer  string  `json:"issuer,omitempty"`
	TokenID string  `json:"tokenId,omitempty"`
	Root    string  `json:"root,omitempty"`
	Session string  `json:"session,omitempty"`
	Run     string  `json:"run,omitempty"`
	Call    string  `json:"call,omitempty"`
	Target  string  `json:"target,omitempty"`
	Route   string  `json:"route,omitempty"`
	Address string  `json:"address,omitempty"`
	Status  int     `json:"status,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Count   int64   `json:"count,omitempty"`
}

// Encode returns e as JSON, without the attributes of Header.
func (e Event) Encode() ([]byte, error) {
	v := eventJSON{
		Version: Version, Act: e.Act, Outcome: e.Outcome, Tenant: e.Tenant, Root: e.Session.Root, Session: e.Session.ID, Run: e.Run, Call: e.Call, Target: e.Target,
		Route: e.Route, Address: e.Address, Status: e.Status, Reason: e.Reason, Count: e.Count,
	}
	if e.By != nil {
		v.Subject, v.TokenID = e.By.Subject, e.By.TokenID
		if e.By.Issuer != nil {
			v.Issuer = *e.By.Issuer
		}
	}
	return json.Marshal(v)
}

// Header returns the CloudEvents attributes of the message of e.
func (e Event) Header() map[string][]string {
	source := "/"
	switch {
	case e.Session != (chunk.Session{}):
		source = e.Session.String()
	case e.Tenant != "":
		source += e.Tenant
	}
	return map[string][]string{
		"ce-specversion":     {"1.0"},
		"ce-id":              {e.ID},
		"ce-source":          {source},
		"ce-type":            {typePrefix + string(e.Act)},
		"ce-time":            {e.Time.UTC().Format(timeLayout)},
		"ce-datacontenttype": {"application/json"},
	}
}

const (
	typePrefix = "audit."
	timeLayout = "2006-01-02T15:04:05.000Z07:00"
)

// Decode reads the message of an event.
func Decode(header map[string][]string, data []byte) (Event, error) {
	var v eventJSON
	if err := json.Unmarshal(data, &v); err != nil {
		return Event{}, fmt.Errorf("audit event: %w", err)
	}
	if v.Act == "" {
		return Event{}, fmt.Errorf("audit event: act is missing: %w", chunk.ErrInvalid)
	}
	e := Event{
		Act: v.Act, Outcome: v.Outcome, Tenant: v.Tenant, Run: v.Run, Call: v.Call, Target: v.Target, Route: v.Route, Address: v.Address,
		Status: v.Status, Reason: v.Reason, Count: v.Count,
	}
	if v.Session != "" {
		e.Session = chunk.Session{Tenant: v.Tenant, Root: v.Root, ID: v.Session}
	}
	if v.Subject != "" {
		e.By = &chunk.Principal{Subject: v.Subject, TokenID: v.TokenID}
		if v.Issuer != "" {
			e.By.Issuer = &v.Issuer
		}
	}
	for name, values := range header {
		switch {
		case len(values) == 0:
		case strings.EqualFold(name, "ce-id"):
			e.ID = values[0]
		case strings.EqualFold(name, "ce-time"):
			at, err := time.Parse(time.RFC3339, values[0])
			if err != nil {
				return Event{}, fmt.Errorf("audit event: ce-time: %w", err)
			}
			e.Time = at
		}
	}
	return e, nil
}

// idOf returns the id of an event of one request: a step of the request that is repeated after a conflict is the same event.
func idOf(request string, e Event) string {
	h := sha256.New()
	for _, part := range []string{request, string(e.Act), string(e.Outcome), e.Session.String(), e.Run, e.Call, e.Target} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
