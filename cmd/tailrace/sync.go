package main

import (
	"errors"
	"time"
)

// syncSetting is when the built-in NATS server syncs its files, as a setting: an interval or always.
type syncSetting struct {
	interval time.Duration
	always   bool
}

// UnmarshalText parses always or a duration.
func (s *syncSetting) UnmarshalText(text []byte) error {
	*s = syncSetting{always: string(text) == "always"}
	if s.always {
		return nil
	}
	var err error
	if s.interval, err = time.ParseDuration(string(text)); err != nil || s.interval <= 0 {
		return errors.New("want always or a duration of more than 0, such as 2m")
	}
	return nil
}
