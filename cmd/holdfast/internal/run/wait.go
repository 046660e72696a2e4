//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/semaphore"
)

// signals are those that came and are not dealt with yet.
type signals struct {
	passed    chan os.Signal // for the command; before there is one they end the wait
	continued chan os.Signal // SIGCONT
	hurried   bool           // one has come while there was no command
}

// listen catches the signals that would end holdfast. Those that it was told to ignore, as nohup does,
// it goes on ignoring, and so does the command. SIGPIPE is caught, and not ignored, so that the command
// has it as it was.
func listen() *signals {
	s := &signals{passed: make(chan os.Signal, 64), continued: make(chan os.Signal, 1)}
	for _, sig := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(s.passed, sig)
		}
	}
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	return s
}

// follow catches those signals, too, that matter only while there is a command.
func (s *signals) follow() {
	signal.Notify(s.passed, syscall.SIGTSTP, syscall.SIGWINCH)
	signal.Notify(s.continued, syscall.SIGCONT)
}

// errInterrupted ends a run that SIGINT ended, or whose command it ended.
var errInterrupted = &cli.ExitError{Code: cli.ExitSignal + int(syscall.SIGINT)}

// during does something that ends with the first signal. That is the error then.
func (s *signals) during(do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case sig := <-s.passed:
		cancel()
		<-done //nolint:errcheck // the signal ended it
		return s.endedBy(sig)
	case err := <-done:
		return cmp.Or(s.pending(), err)
	}
}

// pending is the end of a run by a signal that has come meanwhile, nil if there is none.
func (s *signals) pending() error {
	select {
	case sig := <-s.passed:
		return s.endedBy(sig)
	default:
		return nil
	}
}

// endedBy is the end of a run by a signal.
func (s *signals) endedBy(sig os.Signal) error {
	s.hurried = true
	if sig == syscall.SIGINT {
		return errInterrupted
	}
	return cli.Silent(cli.ExitSignal + int(sig.(syscall.Signal)))
}

// leave leaves the signals to the system again, as they are for the command that holdfast becomes: an exec
// would forget one that came before. That is the error then. One that comes later ends holdfast as it would
// end the command.
func (s *signals) leave() error {
	signal.Stop(s.passed) // after which it has all that came
	return s.pending()
}

// errHurried says that what gives back was left alone.
var errHurried = errors.New("the reply was not waited for")

// giveBack does something that may hang while the server does. Who sends a signal waits for it no longer
// than this.
func (s *signals) giveBack(do func() error) error {
	const hurry = time.Second
	done := make(chan error, 1)
	go func() { done <- do() }()
	if !s.hurried {
		select {
		case err := <-done:
			return err
		case <-s.passed:
		}
		s.hurried = true
	}
	select {
	case err := <-done:
		return err
	case <-time.After(hurry):
		return errHurried
	}
}

// take takes the lock, unless a signal comes first or somebody else has it for too long.
func (s *settings) take(session *holdfast.Session, signals *signals, say *reporter) (hold *holdfast.Hold, err error) {
	fixed := time.Duration(0)
	if s.noFork {
		fixed = s.lease
	}
	var took time.Duration
	err = signals.during(func(ctx context.Context) (err error) {
		if err := s.makePermits(ctx, session, say); err != nil {
			return err
		}
		what := newThing(session, s.kind(), s.name, fixed, s.fenced)
		silence := s.announce(ctx, session, say)
		began := time.Now()
		if s.nonblock || s.limit > 0 {
			hold, err = what.TryLockFor(ctx, time.Duration(s.limit))
		} else {
			hold, err = what.Lock(ctx)
		}
		took = time.Since(began)
		silence()
		return s.conflicted(ctx, session, err, say)
	})
	if err != nil {
		if hold != nil { // a signal came together with it
			_ = signals.giveBack(hold.Release)
		}
		return nil, s.failure(err)
	}
	text := fmt.Sprintf("getting lock took %.6f seconds", took.Seconds()) // as flock says it
	say.tell("acquired", text, detail{"seconds", took.Seconds()}, detail{"owner", hold.ID()},
		detail{"deadline", hold.Deadline().UTC().Format(deadlineFormat)})
	return hold, nil
}

// conflicted is err, or the silent end of a run that found the lock taken, as flock's is.
func (s *settings) conflicted(ctx context.Context, session *holdfast.Session, err error, say *reporter) error {
	if !errors.Is(err, holdfast.ErrBusy) {
		return err
	}
	if say.verbose {
		text := "failed to get lock"
		if !s.nonblock {
			text = "timeout while waiting to get lock"
		}
		by, list := s.inTheWay(ctx, session)
		say.tell("conflict", text+by, list...)
	}
	return cli.Silent(s.conflict)
}

// announce says who is in the way once it is clear that somebody is: to those who asked, and to a person
// who sits there and wonders. The function it returns has it say no more.
func (s *settings) announce(ctx context.Context, session *holdfast.Session, say *reporter) (silence func()) {
	after := time.Second
	switch {
	case s.nonblock, !say.verbose && !cli.IsTerminal(os.Stderr):
		return func() {}
	case say.verbose:
		after = 100 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(ctx)
	var announcer sync.WaitGroup
	announcer.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(after):
		}
		by, list := s.inTheWay(ctx, session)
		if ctx.Err() == nil {
			say.say("waiting", fmt.Sprintf("waiting for %q%s", s.name, by), list...)
		}
	})
	return func() {
		cancel()
		announcer.Wait()
	}
}

// inTheWay says who holds what is wanted, in a clause and in a list, if that is known.
func (s *settings) inTheWay(ctx context.Context, session *holdfast.Session) (string, []detail) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	holders, err := s.holders(ctx, session)
	if err != nil || len(holders) == 0 {
		return "", nil
	}
	return ", held by " + whoHolds(holders), []detail{{"holders", holders}}
}

// makePermits makes the semaphore if there is none. One that is there stays as it is: others use it.
func (s *settings) makePermits(ctx context.Context, session *holdfast.Session, say *reporter) error {
	if s.permits == 0 {
		return nil
	}
	e := semaphore.NewExpirable(session, s.name, nil)
	made, err := e.TrySetPermits(ctx, s.permits)
	if err != nil || made {
		return err
	}
	if n, err := e.Permits(ctx); err == nil && n != s.permits {
		say.say("permits", fmt.Sprintf("%q has %s, which stands, and not %d", s.name, cli.Plural(int64(n), "permit"), s.permits),
			detail{"permits", n})
	}
	return nil
}
