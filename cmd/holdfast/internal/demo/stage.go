package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fleet"
)

// A stage is where a story is told: its processes, its audience, its time. A story runs in one
// goroutine. Events are handled while it waits for something, in [stage.until] and [stage.at], so
// nothing here needs a mutex.
type stage struct {
	*cli.Screen
	story   story
	ledger  ledger
	scene   string
	redis   string            // the server's URL
	session *holdfast.Session // the coordinator's own
	name    string            // of the lock
	file    string
	fleet   *fleet.Fleet[event]

	begun     time.Time
	next      time.Time // when the next line of progress is due; zero before the beginning
	connected int       // processes
	ended     int       // processes
	lingering event     // the last of these
}

// A story is a scene's own part of the stage.
type story interface {
	tell(ctx context.Context) error // plays the scene; an error says what did not hold
	take(e event)                   // handles an event of a worker
	progress() string               // where the story stands, in one line
}

const (
	framePeriod = 100 * time.Millisecond // between lines of progress on a terminal
	beatPeriod  = time.Second            // and elsewhere
	soon        = 10 * time.Second       // how long what should happen at once may take
	allowance   = time.Second            // by which a busy machine may be later than promised
)

func newStage(scene string, screen *cli.Screen, redis, folder string, session *holdfast.Session) *stage {
	return &stage{
		Screen: screen, scene: scene, redis: redis, session: session, ledger: ledger{},
		name: "holdfast-demo:" + rand.Text()[:8], file: filepath.Join(folder, scene), begun: time.Now(),
	}
}

// launch starts the processes, waits until all are connected, and lets them begin together.
func (s *stage) launch(ctx context.Context, processes int, with setup) (err error) {
	with.Scene, with.Redis, with.Name, with.File = s.scene, s.redis, s.name, s.file
	s.fleet, err = fleet.Launch[event](ctx, processes, []string{"demo", "worker"}, func(number int) any {
		with.Number = number
		return with
	})
	if err != nil {
		return err
	}
	if err := s.until(ctx, "all workers to connect", func() bool { return s.connected == processes }); err != nil {
		return err
	}
	s.begun = time.Now()
	s.next = s.begun.Add(beatPeriod)
	for _, p := range s.fleet.Processes {
		p.Order(start)
	}
	return nil
}

// acts plays one act after the other, until one fails.
func (s *stage) acts(ctx context.Context, acts ...func(context.Context) error) error {
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// finish makes all processes complete their work and end.
func (s *stage) finish(ctx context.Context) error {
	s.fleet.Finish()
	return s.until(ctx, "all workers to end", func() bool { return s.ended == len(s.fleet.Processes) })
}

// audit compares the ledger with the counter.
func (s *stage) audit(context.Context) error {
	count, err := counter(s.file).read()
	if err != nil {
		return err
	}
	writes := len(s.ledger)
	s.Say(fmt.Sprintf("  lost updates: %d; the counter is %d after %d writes", writes-count, count, writes))
	return s.ledger.audit(count)
}

func (s *stage) close() {
	s.Clear()
	if s.fleet != nil {
		s.fleet.Close()
	}
}

func (s *stage) process(worker int) *fleet.Process { return s.fleet.Processes[worker-1] }

// detain waits until a worker has the lock and stays in the middle of its work, and returns that event.
func (s *stage) detain(ctx context.Context, worker int) (event, error) {
	s.lingering = event{}
	s.process(worker).Order(linger)
	err := s.until(ctx, "a worker to hold the lock", func() bool { return s.lingering.worker == worker })
	return s.lingering, err
}

// until handles events until come says that what the story waits for has come, and fails if that takes too long.
func (s *stage) until(ctx context.Context, what string, come func() bool) error {
	ok, err := s.pass(ctx, soon, come)
	if err == nil && !ok {
		err = fmt.Errorf("waited %v in vain for %s", soon, what)
	}
	return err
}

// at handles events until a moment, counted from the beginning.
func (s *stage) at(ctx context.Context, moment time.Duration) error {
	_, err := s.pass(ctx, time.Until(s.begun.Add(moment)), func() bool { return false })
	return err
}

// pause handles events for a second.
func (s *stage) pause(ctx context.Context) error { return s.at(ctx, time.Since(s.begun)+time.Second) }

// pass handles events until stop, which it reports, or for at most d.
func (s *stage) pass(ctx context.Context, d time.Duration, stop func() bool) (bool, error) {
	end := time.NewTimer(d)
	defer end.Stop()
	frames := time.NewTicker(framePeriod)
	defer frames.Stop()
	for !stop() {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-end.C:
			return stop(), nil
		case <-frames.C:
			s.tick()
		case h := <-s.fleet.Heard:
			if err := s.hear(h); err != nil {
				return false, err
			}
		}
		if s.Err != nil {
			return false, s.Err
		}
	}
	return true, nil
}

func (s *stage) hear(h fleet.Heard[event]) error {
	if h.Ended {
		s.ended++
		return s.fleet.Ended(h)
	}
	e := h.Said
	e.worker, e.at = h.Worker, h.At
	switch e.What {
	case ready:
		s.connected++
	case lingers:
		s.lingering = e
	}
	s.story.take(e)
	return s.ledger.take(e)
}

// tick shows the story's progress, if that is due.
func (s *stage) tick() {
	switch now := time.Now(); {
	case s.next.IsZero(): // nothing has begun
	case s.Live:
		s.Progress(s.timed(s.story.progress()))
	case now.After(s.next):
		s.next = now.Add(beatPeriod)
		s.note("%s", s.story.progress())
	}
}

// note writes a line with the time of the story.
func (s *stage) note(format string, args ...any) { s.Say(s.timed(fmt.Sprintf(format, args...))) }

func (s *stage) timed(text string) string {
	return s.Color(cli.Dim, fmt.Sprintf("%5.1f s  ", time.Since(s.begun).Seconds())) + text
}
