package session

import (
	"context"
	"time"
)

// Reach waits until the server answers the session, which may have to connect again, or until ctx or the
// session ends.
func (s *Session) Reach(ctx context.Context) {
	client := s.config.Client
	for !s.Closed() && client.Do(ctx, client.B().Ping().Build()).Error() != nil {
		if Pause(ctx, time.Millisecond) != nil {
			return
		}
	}
}
