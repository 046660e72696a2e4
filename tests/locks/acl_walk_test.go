package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// An aclWalk tries everything that a user of the toolkit can do. Whatever fails ends the step.
type aclWalk struct {
	ctx          context.Context
	servers      []*redistest.Server // one, or the nodes of a cluster
	tag          string              // a hash tag in all names
	mine, theirs *holdfast.Session
	log          *kit.Journal
}

// An aclError ends a step.
type aclError struct{ error }

func (w *aclWalk) attempt(do func()) (err error) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case aclError:
			err = failure.error
		default:
			panic(failure)
		}
	}()
	do()
	return nil
}

// ok ends the step if there is an error.
func (w *aclWalk) ok(err error) {
	if err != nil {
		panic(aclError{err})
	}
}

// is ends the step unless the error is the wanted one.
func (w *aclWalk) is(err, want error) {
	if !errors.Is(err, want) {
		panic(aclError{errors.Join(fmt.Errorf("want %w", want), err)})
	}
}

func (w *aclWalk) take(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) *holdfast.Hold {
	hold, err := take(ctx)
	w.ok(err)
	return hold
}

// until waits until holds returns true for any of the servers. Waiters must not get their lock in the meantime.
func (w *aclWalk) until(what string, holds func(srv *redistest.Server) bool, waiting ...<-chan kit.Result) {
	for began := time.Now(); !slices.ContainsFunc(w.servers, holds); redistest.Pause(began) {
		w.ok(denied(w.log))
		for _, c := range waiting {
			select {
			case r := <-c:
				w.ok(cmp.Or(r.Err, errors.New("granted too soon")))
			default:
			}
		}
		if time.Since(began) > 20*time.Second {
			w.ok(fmt.Errorf("%s: not in time", what))
		}
	}
}

// listened waits until a waiter listens on a channel that matches.
func (w *aclWalk) listened(pattern string, waiting <-chan kit.Result) {
	w.until(pattern, func(srv *redistest.Server) bool {
		for _, list := range []string{"CHANNELS", "SHARDCHANNELS"} {
			if found, err := srv.Try("PUBSUB", list, pattern); err == nil && len(found.([]any)) > 0 {
				return true
			}
		}
		return false
	}, waiting)
}

// listens waits as listened does.
func (w *aclWalk) listens(pattern string) func(next <-chan kit.Result) {
	return func(next <-chan kit.Result) { w.listened(pattern, next) }
}

// stands waits until a waiter stands in a line, which is after it has begun to listen.
func (w *aclWalk) stands(line string) func(next <-chan kit.Result) {
	return func(next <-chan kit.Result) {
		w.until("it stands", func(srv *redistest.Server) bool {
			length, err := srv.Try("LLEN", line) // it is refused where the slot is not
			return err == nil && length != int64(0)
		}, next)
	}
}

// granted returns what a woken waiter got, which must come before the waiter would look by itself.
func (w *aclWalk) granted(c <-chan kit.Result) *holdfast.Hold {
	r, woken := kit.Receive(kit.Told, c)
	if !woken {
		panic(aclError{errors.New("the waiter was not woken")})
	}
	w.ok(r.Err)
	return r.Hold
}

// name is the user's name for something.
func (w *aclWalk) name(plain string) string { return "app:" + w.tag + plain }

// wire is the name of a key or a channel with that first word.
func (w *aclWalk) wire(word, plain string) string {
	if w.tag != "" {
		return word + ":" + w.name(plain)
	}
	return word + ":{" + w.name(plain) + "}"
}
