package natsauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// UserInfoSubject is the subject of a request for the permissions of the user that makes it.
const UserInfoSubject = "$SYS.REQ.USER.INFO"

// Missing returns the subjects that want allows and have does not, or denies: those to publish to, and those to subscribe to. A nil have allows everything.
func Missing(want jwt.Permissions, have *jwt.Permissions) (publish, subscribe []string) {
	if have == nil {
		return nil, nil
	}
	return missing(want.Pub, have.Pub), missing(want.Sub, have.Sub)
}

func missing(want, have jwt.Permission) (subjects []string) {
	for _, subject := range want.Allow {
		if len(have.Allow) > 0 && !isWithin(subject, have.Allow) || isDenied(subject, want, have) {
			subjects = append(subjects, subject)
		}
	}
	return subjects
}

// isDenied reports whether have denies a part of a subject that want does not deny.
func isDenied(subject string, want, have jwt.Permission) bool {
	return slices.ContainsFunc(have.Deny, func(denied string) bool {
		if isWithin(denied, want.Deny) {
			return false
		}
		return jsclient.Overlap(denied, subject)
	})
}

// isWithin reports whether one of the patterns contains a subject, which may have wildcards.
func isWithin(subject string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return jwt.Subject(subject).IsContainedIn(jwt.Subject(pattern)) })
}

// Denied returns err, an asynchronous error of a connection of a role, with the name of the role if its user lacks a permission that the role has: it is the user of another role, or its
// permissions are old. It returns nil for other errors, also for a request that the role may not make, which processes make to find that out.
func Denied(role Role, cfg Config, err error) error {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	text := err.Error()
	_, subject, _ := strings.Cut(text, `"`)
	subject, _, _ = strings.Cut(subject, `"`)
	if tokens := strings.SplitN(subject, ".", 4); len(tokens) == 4 && tokens[0] == "$JS" && tokens[2] == "API" {
		cfg.Domain = tokens[1]
	}
	allowed, unknown := Of(role, cfg)
	if unknown != nil {
		return nil //nolint:nilerr // the settings are invalid, which another error says
	}
	list := allowed.Pub.Allow
	if strings.Contains(text, "for Subscription") {
		list = allowed.Sub.Allow
	}
	if !isWithin(subject, list) {
		return nil
	}
	return fmt.Errorf("%w: want the key of the role %s, with what `tailrace nats-auth print --role %s` prints", err, role, role)
}
