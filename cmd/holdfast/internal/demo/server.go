package demo

import (
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A server is the embedded one: Redis in miniature, inside the coordinator, whose clock is
// driven in real time.
type server struct {
	redis *miniredis.Miniredis
	stop  chan struct{}
	done  chan struct{}
}

// tick is the resolution of the server's clock.
const tick = time.Millisecond

func startServer() (*server, error) {
	s := &server{redis: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{})}
	// Leases run out by the clock that TIME reads. It is set from outside rather than left to
	// run, because then it stands still during a script, as on a real server: there a key that
	// a script has seen cannot expire before the script is done with it.
	s.redis.SetTime(time.Now())
	s.redis.ClockTTL(true)
	if err := s.redis.Start(); err != nil {
		return nil, err
	}
	go s.drive()
	return s, nil
}

func (s *server) drive() {
	defer close(s.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.redis.SetTime(time.Now())
		case <-s.stop:
			return
		}
	}
}

func (s *server) url() string { return "redis://" + s.redis.Addr() }

func (s *server) close() {
	close(s.stop)
	<-s.done
	s.redis.Close()
}
