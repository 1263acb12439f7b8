// Package natsauth is the only source of the permissions that the roles of Tailrace need on a NATS server. Of returns the permissions of a role as the
// allow and deny lists that nats-server and user JWTs have; Conf and NSC print them for a configuration file and for the tool nsc.
//
//	p, err := natsauth.Of(natsauth.Worker, natsauth.Config{})
//	claims := jwt.NewUserClaims(publicKey)
//	claims.Permissions = p
//
// A role may verify the streams, and publish and request what its work needs; only setup may create streams. Subjects decide what a user may ask for, and
// JetStream has the name of the stream in the subject of a request, but the sequence, and in most requests the filter, in its body. So a user that may read
// one message of a stream may read all of them. A client also chooses the subject of the response, which is a message like any other. So permissions separate
// the roles, and only accounts separate tenants: docs/guides/tenants.md.
//
// The permissions were derived from the requests of the packages that use JetStream, and are compared with them by tests in which each role does its work on
// a server that denies everything else.
package natsauth
