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

// signals are those that have come and are not handled yet.
type signals struct {
	passed    chan os.Signal // for the command; before there is one they end the wait
	seen      chan os.Signal // others, such as SIGWINCH: a command hears of them, and without one they end nothing
	continued chan os.Signal // SIGCONT
	hurried   bool           // one came while there was no command
}

// listen catches the signals that would end holdfast. It goes on ignoring SIGHUP and SIGINT if it was started so, as by
// nohup, and so does the command.
func listen(verb string) *signals {
	s := &signals{passed: make(chan os.Signal, 64), seen: make(chan os.Signal, 64), continued: make(chan os.Signal, 1)}
	cli.Catch(s.passed, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	free := s.passed // signals that a command gives a meaning of its own, perhaps to reopen its logs
	if verb == leads {
		free = s.seen // the whole fleet may get them, and must not be without candidates then
	}
	cli.Catch(free, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	cli.OutliveReaders()
	return s
}

// follow also catches the signals that matter only while there is a command.
func (s *signals) follow() {
	signal.Notify(s.seen, syscall.SIGTSTP, syscall.SIGWINCH)
	signal.Notify(s.continued, syscall.SIGCONT)
}

// wait undoes that, because there is no command any more.
func (s *signals) wait() {
	signal.Reset(syscall.SIGTSTP, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTTOU)
	s.hurried = false
}

// errInterrupted ends a run that SIGINT ended, or whose command it ended.
var errInterrupted = &cli.ExitError{Code: cli.ExitSignal + int(syscall.SIGINT)}

// during runs do, and cancels it at the first signal, which is the error then.
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

// pending is the error of a run that a signal has ended meanwhile, nil if none has come.
func (s *signals) pending() error {
	select {
	case sig := <-s.passed:
		return s.endedBy(sig)
	default:
		return nil
	}
}

// endedBy is the error of a run that a signal ends.
func (s *signals) endedBy(sig os.Signal) error {
	s.hurried = true
	if sig == syscall.SIGINT {
		return errInterrupted
	}
	return cli.Silent(cli.ExitSignal + int(sig.(syscall.Signal)))
}

// errHurried says that nobody waited for the end of a release.
var errHurried = errors.New("the reply was not waited for")

// giveBack releases something, which hangs if the server does. After a signal it waits at most a second.
func (s *signals) giveBack(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	if !s.hurried {
		select {
		case err := <-done:
			return err
		case <-s.passed:
			s.hurried = true
		}
	}
	select {
	case err := <-done:
		return err
	case <-time.After(time.Second):
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
		if s.verb == leads {
			what = election{what, session, s.name, &s.standing}
		}
		silence := s.announce(ctx, session, say)
		began := time.Now()
		if s.nonblock || s.limit > 0 {
			hold, err = what.TryLockFor(ctx, time.Duration(s.limit))
		} else {
			hold, err = what.Lock(ctx)
		}
		if err == nil && !s.noFork && time.Until(hold.Deadline()) < s.lease/10*9 { // a release granted it for 9.5 s
			_ = hold.Extend(ctx, s.lease) // or the command has less time until its end
		}
		s.began = time.Now()
		if took = s.began.Sub(began); err == nil && s.atLeast > 0 && !s.takeOver {
			err = s.leave(ctx, session, hold)
		}
		silence()
		return s.conflicted(ctx, session, err, say)
	})
	if err != nil {
		if hold != nil { // a signal came together with the grant
			_ = signals.giveBack(hold.Release)
		}
		return nil, s.failure(err)
	}
	text := fmt.Sprintf("getting lock took %.6f seconds", took.Seconds()) // as flock says it
	say.tell("acquired", text, detail{"seconds", took.Seconds()}, detail{"owner", hold.ID()},
		detail{"deadline", hold.Deadline().UTC().Format(deadlineFormat)})
	return hold, nil
}

// leave takes a hold of its own that keeps others out for --at-least since the start, also when the command has ended.
func (s *settings) leave(ctx context.Context, session *holdfast.Session, hold *holdfast.Hold) (err error) {
	rest := time.Until(s.began.Add(s.atLeast))
	if rest < shortest {
		return nil
	}
	s.left, err = newThing(session, s.kind(), s.name, rest, s.fenced).Lock(hold.Context(ctx))
	return err
}

// stay lets that hold outlive this process. Without a command that has started, the session's end releases it.
func (s *settings) stay() {
	if s.left != nil {
		_ = s.left.Detach()
	}
}

// conflicted makes ErrBusy the silent end of the run, as flock does, and returns any other err as it is.
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

// announce reports who holds the lock as soon as the run clearly has to wait: with --verbose, and on a terminal, where
// a person may wonder. The function that it returns ends that.
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

// inTheWay names those who hold what is wanted, in a clause and as a detail, if they are known.
func (s *settings) inTheWay(ctx context.Context, session *holdfast.Session) (string, []detail) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	holders, err := s.holders(ctx, session)
	if err != nil || len(holders) == 0 {
		return "", nil
	}
	return ", held by " + whoHolds(holders), []detail{{"holders", holders}}
}

// makePermits creates the semaphore if there is none. It does not change one that exists, which others use.
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
		has := cli.Plural(int64(n), "permit")
		say.say("permits", fmt.Sprintf("%q keeps its %s; --permits %d does not change that", s.name, has, s.permits),
			detail{"permits", n})
	}
	return nil
}
