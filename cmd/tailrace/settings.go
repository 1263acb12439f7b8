package main

import (
	"encoding"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/tailrace/tailrace/internal/nearest"
)

// settingPrefix starts the name of the variable of every setting.
const settingPrefix = "TAILRACE_"

// setting is one field of a config.
type setting struct {
	value    reflect.Value
	variable string
	def      string
	desc     string
	of       []string // the commands that use it
}

// isOf reports whether a command uses the setting.
func (s setting) isOf(command string) bool {
	connects := !slices.Contains([]string{"token", "nats-auth"}, command)
	return slices.Contains(s.of, command) || connects && slices.Contains(s.of, "nats")
}

func settingsOf(c *config) []setting {
	v := reflect.ValueOf(c).Elem()
	settings := make([]setting, 0, v.NumField())
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.IsExported() {
			settings = append(settings, setting{value: v.Field(i), variable: field.Tag.Get("envconfig"), def: field.Tag.Get("default"), desc: field.Tag.Get("desc"), of: strings.Fields(field.Tag.Get("of"))})
		}
	}
	return settings
}

// flagName returns nats-url for TAILRACE_NATS_URL.
func (s setting) flagName() string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.variable, settingPrefix)), "_", "-")
}

// parse sets the setting to the text of a flag, of which it accepts what envconfig accepts of a variable.
func (s setting) parse(text string) (err error) {
	if s.value.Kind() == reflect.String {
		s.value.SetString(text)
		return nil
	}
	switch p := s.value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		err = p.UnmarshalText([]byte(text))
	case *bool:
		*p, err = strconv.ParseBool(text)
	case *int:
		var n int64
		n, err = strconv.ParseInt(text, 0, strconv.IntSize)
		*p = int(n)
	case *int64:
		*p, err = strconv.ParseInt(text, 0, 64)
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	default:
		panic("config: no parser for " + s.variable)
	}
	return withoutValue(s.value.Type().String(), err)
}

// wantedValues describes the values of the types whose parsers return errors with the text in them.
var wantedValues = map[string]string{
	"bool": "true or false", "int": "a whole number of 64 bits", "int64": "a whole number of 64 bits", "float64": "a number",
	"time.Duration": "a duration such as 1m30s", "slog.Level": "debug, info, warn or error",
}

// withoutValue returns the error of a parser without the text that it has parsed, which may be a secret. The types of this package return errors without it.
func withoutValue(typeName string, err error) error {
	if want, ok := wantedValues[typeName]; err != nil && ok {
		return errors.New("want " + want)
	}
	return err
}

// readEnvironment sets each setting to its variable, or to its default if the variable is not set. A variable that is set but empty is the empty text, which
// many types do not accept.
func readEnvironment(c *config) error {
	if err := checkVariables(os.Environ()); err != nil {
		return err
	}
	err := envconfig.Process("", c)
	if parse, ok := errors.AsType[*envconfig.ParseError](err); ok {
		return fmt.Errorf("%s: %w", parse.KeyName, withoutValue(parse.TypeName, parse.Err)) // its own text has the value
	}
	return err
}

// registerSettings adds a flag for each setting. The function that it returns sets the settings whose flags were given; package flag does not, because its
// errors have the value.
func registerSettings(flags *flag.FlagSet, c *config) (set func() error) {
	type given struct {
		setting

		text string
	}
	var all []given
	for _, s := range settingsOf(c) {
		if flags.Lookup(s.flagName()) != nil { // a command may give a setting a meaning of its own
			continue
		}
		register := flags.Func
		if s.value.Kind() == reflect.Bool {
			register = flags.BoolFunc // --demo without a value
		}
		register(s.flagName(), s.desc, func(text string) error {
			all = append(all, given{s, text})
			return nil
		})
	}
	return func() error {
		for _, g := range all {
			if err := g.parse(g.text); err != nil {
				return fmt.Errorf("flag --%s: %w", g.flagName(), err)
			}
		}
		return nil
	}
}

// serviceVariable matches the variables that Kubernetes derives from a service whose name begins with tailrace.
var serviceVariable = regexp.MustCompile(`^TAILRACE_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_.+)?)$`)

// isOfOtherProgram reports whether a variable is a setting of a program beside this one: the clients in Python and TypeScript, create-tailrace-chat, and tailrace-sink.
func isOfOtherProgram(name string) bool {
	return strings.HasPrefix(name, settingPrefix+"SINK_") || slices.Contains([]string{settingPrefix + "URL", settingPrefix + "TOKEN", settingPrefix + "BIN"}, name)
}

// checkVariables returns an error for a variable that has the prefix of the settings and is not a setting.
func checkVariables(environ []string) error {
	known := map[string]bool{}
	var short []string // without the prefix
	for _, s := range settingsOf(&config{}) {
		known[s.variable] = true
		short = append(short, strings.TrimPrefix(s.variable, settingPrefix))
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, settingPrefix) || known[name] || serviceVariable.MatchString(name) || isOfOtherProgram(name) {
			continue
		}
		if near := nearest.Name(strings.TrimPrefix(name, settingPrefix), short); near != "" {
			return fmt.Errorf("%s is not a setting; did you mean %s%s?", name, settingPrefix, near)
		}
		return fmt.Errorf("%s is not a setting; `tailrace help` lists them", name)
	}
	return nil
}
