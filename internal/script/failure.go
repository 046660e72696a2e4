package script

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/sharing"
)

// A Class says what is known about a call that did not succeed.
type Class uint8

const (
	// Refused says that nothing was changed. The server said no, or never got the call.
	Refused Class = iota + 1
	// Unknown says that the call may have been executed, or may still be.
	Unknown
	// Broken says that the reply is none that the script's header lists.
	Broken
)

// A Failure is a call without a usable reply. It wraps the server's or the network's own
// error, except that a context error shows through only if it is the caller's context that
// ended: somebody else's deadline must not look like one's own.
type Failure struct { //nolint:errname // never leaves the module under its name
	Class Class
	// Temporary reports whether waiting may mend it: no connection, a server that is
	// loading, failing over, or not a master at the moment.
	Temporary bool
	Err       error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// ClassOf returns the class of err, or 0 if err is not an error of this package.
func ClassOf(err error) Class {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	return 0
}

// InDoubt reports whether err leaves open whether the call was executed, or still will be.
func InDoubt(err error) bool {
	class := ClassOf(err)
	return class == Unknown || class == Broken
}

// IsTemporary reports whether err is a failure that waiting may mend.
func IsTemporary(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && f.Temporary
}

// MayPass reports whether err is a refusal that concerns the server, or the rights on it, and not the request: the same
// call may be done one day.
func MayPass(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Class != Refused || f.Temporary {
		return ok && f.Class == Refused
	}
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && slices.ContainsFunc(
		[]string{
			"OOM ", "MISCONF ", "NOPERM", "NOAUTH ", "WRONGPASS ", "user executing the script can't",
			"ACL failure in script",
		},
		func(words string) bool { return strings.Contains(answer.Error(), words) })
}

// brokenf is the failure of a reply that nobody documented.
func brokenf(s *Script, format string, args ...any) error {
	return &Failure{Class: Broken, Err: fmt.Errorf("%s: "+format, append([]any{s.name}, args...)...)}
}

// errLeft is of a direct call whose context has ended.
var errLeft = errors.New("nobody waits for the reply any more")

// sortFailure makes a Failure of the error that the client returned for a call under ctx.
func sortFailure(ctx context.Context, err error) *Failure {
	if sharing.IsEnded(err) {
		err = errLeft
	}
	if refusal, ok := rueidis.IsRedisErr(err); ok {
		if why := ended(ctx); why != nil && refusal.IsNoScript() { // it was not sent in full then
			return &Failure{Class: Refused, Err: why}
		}
		if text := refusal.Error(); Words(text) != text {
			err = mismatch{refusal}
		}
		return &Failure{Class: Refused, Temporary: passing(refusal.Error()), Err: err}
	}
	if rueidis.IsRedisNil(err) {
		return &Failure{Class: Broken, Err: err}
	}
	if why := ended(ctx); why != nil {
		return &Failure{Class: Unknown, Err: why}
	}
	if errors.Is(err, rueidis.ErrClosing) {
		return &Failure{Class: Unknown, Err: err}
	}
	f := &Failure{Class: Unknown, Temporary: true, Err: disown(err)}
	if unsent(err) {
		f.Class = Refused
	}
	return f
}

// Words returns the text of a refusal for the user: the server's words, but of a key that holds something else than it
// should those about the script are left out.
func Words(text string) string {
	const code = "WRONGTYPE "
	_, words, found := strings.Cut(text, code)
	if !found {
		return text
	}
	words, _, _ = strings.Cut(words, " script: ")
	return "the key holds something else: " + code + words
}

// A mismatch is the server's refusal of such a key, in the words for the user.
type mismatch struct{ *rueidis.RedisError }

func (m mismatch) Error() string { return Words(m.RedisError.Error()) }
func (m mismatch) Unwrap() error { return m.RedisError }

// A NameError is the server's error about one name of many, in the words for the user.
type NameError string

func (s NameError) Error() string { return Words(string(s)) }

// Mismatched reports whether err is the refusal of a key that holds something else than it should.
func Mismatched(err error) bool {
	said, _ := errors.AsType[NameError](err)
	_, refused := errors.AsType[mismatch](err)
	return refused || Words(string(said)) != string(said)
}

// tardy is how much later than its deadline a context may end in a process that gets little of its machine.
const tardy = time.Second

// ended returns why ctx has ended, nil if it has not. If the client cannot wait for the context it goes by its
// deadline, so it may be ahead of the context: then ctx says why in a moment.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
		case <-time.After(tardy):
			return context.DeadlineExceeded
		}
	}
	return context.Cause(ctx)
}

// unsent reports whether err says that there was no connection to send the call on. An error
// of the handshake does not say so: it looks like one of a call.
func unsent(err error) bool {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	return errors.Is(err, rueidis.ErrNoSlot)
}

// foreign reports whether err would be taken for the caller's own ended context. The client
// has such errors of whoever dialled, from the dial or from the handshake that follows it,
// and then nothing was sent, unless it is of a login that was repeated: see Runner.ofLogin.
func foreign(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// disown returns err so that it is not taken for the caller's own ended context.
func disown(err error) error {
	if foreign(err) {
		return errors.New(err.Error())
	}
	return err
}

// Interrupted reports whether err comes from a script that had begun, and may have changed something. It has changed
// nothing at a replica, or if there are too few replicas, no memory or no disk: for these reasons, a server refuses the
// first write of a script or none.
func Interrupted(err error) bool {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok || !strings.Contains(answer.Error(), "@user_script") {
		return false
	}
	return !ofReplica(answer.Error()) && !slices.Contains([]string{"NOREPLICAS", "OOM", "MISCONF"}, codeOf(answer.Error()))
}

// Answered reports whether err has a refusal of the server's, which is not silent then.
func Answered(err error) bool {
	_, ok := errors.AsType[*rueidis.RedisError](err)
	return ok
}

// BecauseOfKeys reports whether err refuses a call because of its keys, though some of them alone might be served: they
// are on two nodes of a cluster, or the user has no right to one.
func BecauseOfKeys(err error) bool {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return false
	}
	code, why, _ := strings.Cut(answer.Error(), " ")
	return code == "TRYAGAIN" || code == "NOPERM" && strings.Contains(why, "key")
}

// Passes reports whether an answer of the server's, of one name perhaps, is a refusal of one that will soon be well.
func Passes(err error) bool {
	if said, ok := errors.AsType[NameError](err); ok {
		return passing(string(said))
	}
	answer, ok := rueidis.IsRedisErr(err)
	return ok && passing(answer.Error())
}

// passing reports whether the text, without "ERR ", is the refusal of a server that will soon be well.
func passing(text string) bool {
	switch codeOf(text) {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "BUSY", "NOREPLICAS":
		return true
	}
	// A script came upon a key that is still, or already, on another node of a cluster; or there was no connection.
	return ofReplica(text) || strings.HasPrefix(text, "max number of clients") ||
		strings.Contains(text, "access a non local key") ||
		strings.Contains(text, "keys were accessed during rehashing of the slot")
}

// ofReplica reports whether a server says so that is no master, or not any more.
func ofReplica(text string) bool {
	code := codeOf(text)
	return code == "READONLY" || code == "MASTERDOWN"
}

// codeOf returns the first word of a server's refusal.
func codeOf(text string) string {
	// Before Redis 7 a script's errors begin with where they happened.
	if strings.HasPrefix(text, "Error running script") || strings.HasPrefix(text, "@user_script") {
		_, text, _ = strings.Cut(text, ": -")
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}
