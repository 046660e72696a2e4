// Package demo is the command "holdfast demo": scenes in which several processes share a
// synchronizer while the demo does to them what production does.
//
// The coordinator starts the processes, which are this program again as the hidden command
// "demo worker". It gives them orders and hears what they do over pipes, one JSON object per line
// (protocol.go). Each scene is a file: its story, which the coordinator tells, and its work, which
// the processes do. In lock.go and fair.go they count (counting.go), in pool.go they do jobs.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/embedded"
)

// A scene is one act of the demo, about ten seconds long.
type scene struct {
	name  string
	short string

	// story returns the coordinator's part.
	story func(s *stage) story
	// work returns what each goroutine of a worker process does again and again.
	work func(w *worker, s *holdfast.Session) func(ctx context.Context) error
}

// scenes are all scenes, in order.
func scenes() []scene { return []scene{lockScene, fairScene, poolScene} }

// run plays the scenes, on an embedded server if redis is empty.
func run(ctx context.Context, out *os.File, redis string, chosen []scene) (err error) {
	folder, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	where := "a real server"
	if redis == "" {
		server, err := embedded.Start()
		if err != nil {
			return fmt.Errorf("demo: embedded server: %w", err)
		}
		defer server.Close()
		redis, where = server.URL(), "an embedded server"
		_ = errors.Join(os.Unsetenv(cli.EnvUser), os.Unsetenv(cli.EnvPassword)) // they are for a server of the user's
	}
	screen := newScreen(out)
	defer screen.clear()
	for _, sc := range chosen {
		if err := play(ctx, sc, screen, redis, where, folder); err != nil {
			return fmt.Errorf("demo: %s: %w", sc.name, err)
		}
	}
	return screen.err
}

// play plays one scene; none of its processes is left afterwards.
func play(ctx context.Context, sc scene, screen *screen, redis, where, folder string) error {
	screen.say("")
	screen.say(screen.bold("holdfast demo "+sc.name) + " on " + where + ": " + sc.short)
	session, err := cli.At(redis).Open(&holdfast.Options{Anonymous: true})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // it holds nothing
	s := newStage(sc.name, screen, redis, folder, session)
	defer s.close()
	s.story = sc.story(s)
	if err := s.story.tell(ctx); err != nil {
		return err
	}
	screen.say(screen.green("Everything held."))
	return nil
}
