package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/embedded"
)

// A stage is where a story is told: its processes, its audience, its time. A story is told in
// one goroutine, line by line; events are taken in, and the picture is drawn, while it waits
// for something, in [stage.until] and [stage.at]. So nothing here needs a mutex.
type stage struct {
	*screen
	story story
	scene string
	name  string // of the lock
	file  string
	fleet *fleet

	redis   []string           // URLs of servers
	servers []*embedded.Server // these, unless they are real

	begun     time.Time
	beat      time.Time // of the next line of progress
	connected int       // processes
	ended     int       // processes
}

// A story is a scene's own part of the stage.
type story interface {
	take(e event) error // takes in what happened, and fails if it must not happen
	picture() []string  // what it looks like, for a terminal
	progress() string   // the same in one line, for everything else
}

const (
	framePeriod = 100 * time.Millisecond // between pictures
	beatPeriod  = time.Second            // between lines of progress
	soon        = 10 * time.Second       // what should happen at once has failed if it has not by then
	allowance   = time.Second            // by which a busy machine may be later than promised
)

func newStage(scene string, screen *screen, folder string) *stage {
	return &stage{
		screen: screen, scene: scene,
		name: "holdfast-demo:" + rand.Text()[:8], file: filepath.Join(folder, scene), begun: time.Now(),
	}
}

// launch starts the processes, waits until all are connected, and has them start together.
func (s *stage) launch(ctx context.Context, processes int, with setup) (err error) {
	with.Scene, with.Redis, with.Name, with.File = s.scene, s.redis, s.name, s.file
	if s.fleet, err = launch(ctx, processes, with); err != nil {
		return err
	}
	if err := s.until(ctx, "all workers to connect", func() bool { return s.connected == processes }); err != nil {
		return err
	}
	s.begun = time.Now()
	s.beat = s.begun.Add(beatPeriod)
	for _, p := range s.fleet.processes {
		if err := p.order(order{Do: start}); err != nil {
			return err
		}
	}
	return nil
}

// finish has all processes end by themselves.
func (s *stage) finish(ctx context.Context) error {
	for _, p := range s.fleet.processes {
		if err := p.finish(); err != nil {
			return err
		}
	}
	return s.until(ctx, "all workers to end", func() bool { return s.ended == len(s.fleet.processes) })
}

func (s *stage) close() {
	s.clear()
	if s.fleet != nil {
		s.fleet.close()
	}
}

// aside does something beside the story, until stop is called, which waits for its end.
func aside(ctx context.Context, do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var doing sync.WaitGroup
	doing.Go(func() { do(ctx) })
	return func() {
		cancel()
		doing.Wait()
	}
}

// until lets things happen until what the story waits for has come about. It fails if that
// does not happen soon, or if something happens that must not.
func (s *stage) until(ctx context.Context, what string, come func() bool) error {
	ok, err := s.pass(ctx, soon, come)
	if err == nil && !ok {
		err = fmt.Errorf("waited %v in vain for %s", soon, what)
	}
	return err
}

// at lets things happen until so long after the beginning.
func (s *stage) at(ctx context.Context, moment time.Duration) error {
	_, err := s.pass(ctx, time.Until(s.begun.Add(moment)), func() bool { return false })
	return err
}

// pass lets time pass until stop, which it reports, or for at most d.
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
			return false, nil
		case <-frames.C:
			s.show()
		case e := <-s.fleet.events:
			if err := s.hear(e); err != nil {
				return false, err
			}
		}
		if s.err != nil {
			return false, s.err
		}
	}
	return true, nil
}

// hear takes in what happened.
func (s *stage) hear(e event) error {
	switch e.What {
	case ready:
		s.connected++
	case exited:
		s.ended++
		if err := s.fleet.ended(e); err != nil {
			return err
		}
	}
	return s.story.take(e)
}

// show draws the picture, or every now and then writes a line.
func (s *stage) show() {
	if s.live {
		s.draw(s.story.picture())
	} else if now := time.Now(); s.connected > 0 && now.After(s.beat) {
		s.beat = now.Add(beatPeriod)
		s.note("%s", s.story.progress())
	}
}

// note writes a line with the time of the story.
func (s *stage) note(format string, args ...any) {
	s.say(s.dim(fmt.Sprintf("%5.1f s  ", time.Since(s.begun).Seconds())) + fmt.Sprintf(format, args...))
}
