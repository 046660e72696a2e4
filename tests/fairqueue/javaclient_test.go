package fairqueue_test

// javaClient is a thread of Java: it tries, subscribes, tries again, and then sleeps as long as the script says.
type javaClient struct{ *client }

func (j *javaClient) begin() {
	switch j.task.kind {
	case try:
		j.send("tryLock", javaWait, func(r *javaRun) func() {
			if r.take(j.owner, j.lease(), javaWait) {
				return j.held
			}
			return j.finish
		})
		return
	case force:
		j.send("forceUnlock", 0, func(r *javaRun) func() {
			r.force()
			return j.finish
		})
		return
	case tryFor:
		j.deadline = j.now + j.task.patience
	case lock:
	}
	j.wants = true
	if j.task.quit > 0 {
		j.after(max(0, j.task.quit-j.task.start), j.interrupt)
	}
	j.attempt(j.latency(), func(ms) {
		j.after(j.latency(), func() { // until the subscription is confirmed
			j.listening = true
			j.after(j.latency(), j.loop)
		})
	})
}

// wait is the waiting time that the scripts get as an argument.
func (j *javaClient) wait() ms {
	if j.task.kind == tryFor {
		return j.task.patience
	}
	return javaWait
}

// send executes a script after a latency, and hands its result on after another one.
func (j *javaClient) send(script string, takesOff ms, do func(*javaRun) func()) {
	j.sendIn(j.latency(), script, takesOff, do)
}

func (j *javaClient) sendIn(d ms, script string, takesOff ms, do func(*javaRun) func()) {
	back, life := j.latency(), j.life
	j.at(j.now+d, func() {
		var next func()
		j.javaCall(j.client, script, takesOff, func(r *javaRun) { next = do(r) })
		if j.life == life {
			j.after(back, next)
		}
	})
}

// attempt runs acquire once; busy gets the time to sleep.
func (j *javaClient) attempt(d ms, busy func(sleep ms)) {
	j.sendIn(d, "acquire", j.wait(), func(r *javaRun) func() {
		taken, sleep := r.acquire(j.owner, j.lease(), j.wait())
		if taken {
			return j.held
		}
		return func() { busy(sleep) }
	})
}

// loop tries until the lock is held or the time is over.
func (j *javaClient) loop() { j.spin(j.latency()) }

// spin is loop after a reply of 0, which means not to sleep. Java asks again at once, as often as it can. Here the
// time between two attempts grows, or a run would not end.
func (j *javaClient) spin(d ms) {
	const longest = 2 * second
	if j.deadline > 0 && j.now >= j.deadline {
		j.leave()
		return
	}
	j.attempt(d, func(sleep ms) {
		if sleep == 0 {
			j.spin(min(2*max(d, 10), longest))
			return
		}
		j.park(sleep, j.loop)
	})
}

func (j *javaClient) leave() {
	takesOff := j.wait()
	if j.task.async {
		takesOff = javaWait
	}
	j.send("leave", takesOff, func(r *javaRun) func() {
		r.leave(j.owner, takesOff)
		return j.finish
	})
}

// interrupt ends the wait and leaves the entry in the queue.
func (j *javaClient) interrupt() {
	if !j.wants {
		return
	}
	j.note("%s is interrupted", j.owner)
	j.finish()
	j.deadline, j.news = 0, false
	if j.task.again > 0 {
		j.task.quit = 0
		j.after(j.task.again, j.begin)
	}
}

func (j *javaClient) held() {
	j.wants, j.listening = false, false
	j.watchdog()
	j.after(j.task.hold, func() {
		j.send("unlock", 0, func(r *javaRun) func() {
			j.life++ // the watchdog ends with the call
			r.unlock(j.owner, j.lease())
			return j.finish
		})
	})
}
