// Package demo is the command "holdfast demo": scenes in which several processes share a
// synchronizer while the demo does to them what production does.
//
// The coordinator starts the processes, which are the same program again as the hidden command
// "demo worker". It tells them what to do and hears what they do over pipes, one JSON object
// per line; see protocol.go. In the scenes of locks that one holds at a time, what the goroutines
// of the workers do is the same: they count, under the lock of the scene; see counting.go. In
// that of the read-write lock they read and write a document; see rw_worker.go. In that of the pool
// they do jobs; see pool_worker.go. In that of the lock on several servers, which die, they count
// too. A scene is its story, in a file of its own.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast/internal/embedded"
)

// A scene is one act of the demo, about ten seconds long.
type scene struct {
	name  string
	short string

	// servers is how many it brings, wherever the others are played, because it kills them; 0: none.
	servers int

	// play tells the story, in the coordinator. An error says what did not hold.
	play func(ctx context.Context, s *stage) error
	// work is what each worker process does, until it is told to finish or ctx ends.
	work func(ctx context.Context, w *worker) error
}

// scenes are all there is to show, in order.
func scenes() []scene {
	return []scene{lockScene, fairScene, rwScene, poolScene, redLockScene}
}

// sceneOf returns the scene of that name; without a name, one without a play.
func sceneOf(name string) scene {
	for _, s := range scenes() {
		if s.name == name {
			return s
		}
	}
	return scene{}
}

// run plays the scenes, on servers of its own if redis is empty.
func run(ctx context.Context, out *os.File, redis string, chosen []scene) (err error) {
	folder, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	screen := newScreen(out)
	defer screen.close()
	for _, sc := range chosen {
		if err := play(ctx, sc, screen, redis, folder); err != nil {
			return fmt.Errorf("demo: %s: %w", sc.name, err)
		}
	}
	return screen.err
}

// play plays one scene; none of its processes is left afterwards.
func play(ctx context.Context, sc scene, screen *screen, redis, folder string) error {
	servers, where, err := host(sc, redis)
	defer closeServers(servers)
	if err != nil {
		return fmt.Errorf("embedded server: %w", err)
	}
	screen.say("")
	screen.say(screen.bold("holdfast demo "+sc.name) + " on " + where + ": " + sc.short)
	screen.say("")
	s := newStage(sc.name, screen, folder)
	s.servers, s.redis = servers, urlsOf(servers)
	if len(servers) == 0 {
		s.redis = []string{redis}
	}
	defer s.close()
	if err := sc.play(ctx, s); err != nil {
		return err
	}
	screen.say("")
	screen.say(screen.green("Everything held."))
	return nil
}

// host starts what a scene is played on, unless that is a real server, and says what it is. Close
// the servers, also after an error.
func host(sc scene, redis string) (servers []*embedded.Server, where string, err error) {
	switch {
	case sc.servers > 0:
		where = fmt.Sprintf("%d embedded servers", sc.servers)
	case redis == "":
		where = "an embedded server"
	default:
		return nil, "a real server", nil
	}
	servers, err = startServers(max(sc.servers, 1))
	return servers, where, err
}
