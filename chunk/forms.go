package chunk

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// forms has the members that the schema got when records were already stored, by their want tag. Writers had members of these names before, with values of any form,
// and what an external agent says about its model must not fail a run. So a value of another form is kept in Extra.
var forms = map[string]func(text []byte) bool{
	"label":   isLabel,
	"decimal": func(text []byte) bool { return text[0] == '"' && decimal.Match(rawjson.Text(text).Bytes()) },
	"number":  isDouble,
	"time":    func(text []byte) bool { n, ok := integer(text); return ok && checkTimestamp(n) == nil },
}

var formWords = map[string]string{
	"label":   fmt.Sprintf("at most %d bytes of text without control characters", MaxLabel),
	"decimal": "a decimal such as 0.25, with at most 9 digits before the point and 18 after it",
	"number":  kindWords[kindNumber],
	"time":    "Unix milliseconds before the year 10000",
}

var decimal = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,18})?$`)

// has reports whether a value of the name of f is the member, and not an extra one.
func (f *field) has(text []byte) bool {
	if f.form == nil {
		return true
	}
	text = rawjson.TrimSpace(text)
	return len(text) > 0 && f.form(text)
}

func isLabel(text []byte) bool {
	if text[0] != '"' || len(text) > 6*MaxLabel+2 { // no character takes more than an escape of six bytes
		return false
	}
	s := rawjson.Text(text).Bytes()
	return len(s) <= MaxLabel && !hasControl(string(s))
}

func isDouble(text []byte) bool {
	return (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && checkNumber(string(text)) == nil
}

// LabelOf returns a member such as StepEnd.Model for s, nil if s is empty or the member may not have it: more than MaxLabel bytes, control characters or bytes that
// are not UTF-8.
func LabelOf(s string) *string {
	if s == "" || len(s) > MaxLabel || hasControl(s) || !utf8.ValidString(s) {
		return nil
	}
	return &s
}

// CostOf returns n as Usage.Cost: a decimal without sign and exponent, rounded to 18 digits after the point. It returns nil if n is not a JSON number from 0 to
// less than a billion.
func CostOf(n Number) *string {
	if decimal.MatchString(string(n)) {
		return new(string(n))
	}
	f, ok := n.Float64()
	if !ok || !isNumber(string(n)) || f < 0 || f >= 1e9 {
		return nil
	}
	text := strconv.FormatFloat(f, 'f', 18, 64)
	if short := strconv.FormatFloat(f, 'f', -1, 64); len(short) < len(text) {
		text = short
	}
	return new(strings.TrimPrefix(text, "-")) // of -0
}

// Model is the model of a step, "" for what is not known.
type Model struct {
	Name      string // of the model that answered, as its provider reports it
	Requested string // of the model that was asked for
	Provider  string // see StepEnd
}

// AddTo sets the members of end to what is known of m and what they may have. Without a Name, the requested model counts as the one that answered.
func (m Model) AddTo(end *StepEnd) {
	end.Model, end.RequestModel, end.Provider = LabelOf(m.Name), LabelOf(m.Requested), LabelOf(m.Provider)
	if end.Model == nil || end.RequestModel != nil && *end.Model == *end.RequestModel {
		end.Model, end.RequestModel = cmp.Or(end.Model, end.RequestModel), nil
	}
}
