package report

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// chromium is a headless browser, spoken to over two pipes (--remote-debugging-pipe): no port, no
// library, no Node.
type chromium struct {
	t   *testing.T
	out *os.File

	mu      sync.Mutex
	next    int
	replies map[int]chan reply
	events  []browserEvent
	wake    chan struct{}
	session string
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

type browserEvent struct {
	Method string
	Params json.RawMessage
}

// browserPath finds the browser. As root in CI its absence is a failure: everything that is needed
// was to be installed there.
func browserPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getuid() == 0 && os.Getenv("CI") != "" {
		t.Fatal("there is no Chromium, and as root in CI there has to be (Debian package chromium)")
	}
	t.Skip("no Chromium: the report's page is not tested in a browser")
	return ""
}

func newChromium(t *testing.T) *chromium {
	t.Helper()
	path := browserPath(t)
	toBrowser, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
		"--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync", "--disable-component-update",
		"--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe", "--user-data-dir="+filepath.Join(home, "profile"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	c := &chromium{t: t, out: out, replies: map[int]chan reply{}, wake: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() { defer close(done); c.read(in) }()
	t.Cleanup(func() {
		out.Close()
		// Its helpers write into the profile until they are gone too.
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		for end := time.Now().Add(5 * time.Second); syscall.Kill(-cmd.Process.Pid, 0) == nil && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		<-done
		in.Close()
	})
	return c
}

func (c *chromium) read(in *os.File) {
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		b, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(b[:len(b)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		if ch := c.replies[m.ID]; m.ID > 0 && ch != nil {
			delete(c.replies, m.ID)
			ch <- m.reply
		} else if m.Method != "" {
			c.events = append(c.events, browserEvent{m.Method, m.Params})
		}
		c.mu.Unlock()
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// call sends a command and returns its result.
func (c *chromium) call(method string, params map[string]any) json.RawMessage {
	c.t.Helper()
	ch := make(chan reply, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.replies[id] = ch
	m := map[string]any{"id": id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if c.session != "" {
		m["sessionId"] = c.session
	}
	c.mu.Unlock()
	b, err := json.Marshal(m)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.out.Write(append(b, 0)); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	select {
	case r := <-ch:
		if r.Error != nil {
			c.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		return r.Result
	case <-time.After(time.Minute):
		c.t.Fatalf("%s: no answer within a minute", method)
	}
	return nil
}

type view struct {
	width, height int
	dark, mobile  bool
}

// open shows a page and waits until its script is ready.
func (c *chromium) open(path string, v view) {
	c.t.Helper()
	c.session = ""
	var target struct{ TargetID string }
	c.decode(c.call("Target.createTarget", map[string]any{"url": "about:blank"}), &target)
	var attached struct{ SessionID string }
	c.decode(c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}), &attached)
	c.session = attached.SessionID
	c.call("Page.enable", nil)
	c.call("Runtime.enable", nil)
	c.call("Log.enable", nil)
	c.call("Network.enable", nil)
	c.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true})
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width, "height": v.height, "deviceScaleFactor": 1, "mobile": v.mobile})
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
	c.call("Page.navigate", map[string]any{"url": "file://" + path})
	c.until(`document.documentElement.dataset.ready === "true"`)
}

func (c *chromium) decode(b json.RawMessage, into any) {
	c.t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		c.t.Fatal(err)
	}
}

// eval returns the value of an expression, awaited.
func (c *chromium) eval(expression string) any {
	c.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	c.decode(c.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}), &r)
	if r.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	return r.Result.Value
}

// until waits for an expression to be true, asking again with each frame.
func (c *chromium) until(expression string) {
	c.t.Helper()
	ok := c.eval(fmt.Sprintf(`new Promise(done => {
		const end = performance.now() + 20000;
		const look = () => { let v = false; try { v = %s } catch {} ; if (v) done(true); else if (performance.now() > end) done(false); else setTimeout(look, 10); };
		look(); })`, expression))
	if ok != true {
		c.t.Fatalf("never true: %s\n%s", expression, strings.Join(c.complaints(), "\n"))
	}
}

func (c *chromium) text(selector string) string {
	c.t.Helper()
	s, _ := c.eval(fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "(none)"`, selector)).(string)
	return s
}

func (c *chromium) number(expression string) float64 {
	c.t.Helper()
	n, ok := c.eval(expression).(float64)
	if !ok {
		c.t.Fatalf("%s is no number", expression)
	}
	return n
}

func (c *chromium) click(selector string) {
	c.t.Helper()
	if c.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e?.click(); return !!e; })()`, selector)) != true {
		c.t.Fatalf("no %s to click", selector)
	}
}

// press types a key as a person does, through the browser's own focus handling.
func (c *chromium) press(key string) {
	c.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36, "PageDown": 34}
	p := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		p["text"] = "\r"
	}
	if len(key) == 1 {
		p["text"] = key
	}
	c.call("Input.dispatchKeyEvent", p)
	c.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]})
}

// complaints returns console messages, uncaught exceptions and requests that left the page.
func (c *chromium) complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, e := range c.events {
		switch e.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled":
			out = append(out, e.Method+" "+string(e.Params))
		case "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			if json.Unmarshal(e.Params, &p) == nil && !strings.HasPrefix(p.Request.URL, "file://") && !strings.HasPrefix(p.Request.URL, "data:") && !strings.HasPrefix(p.Request.URL, "blob:") {
				out = append(out, "request to "+p.Request.URL)
			}
		}
	}
	return out
}

// shot saves a picture where SQUALL_REPORT_SHOTS names a directory, for people to look at.
func (c *chromium) shot(name string, whole bool) {
	c.t.Helper()
	dir := os.Getenv("SQUALL_REPORT_SHOTS")
	if dir == "" {
		return
	}
	c.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	var r struct{ Data string }
	c.decode(c.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole}), &r)
	b, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), b, 0o644)
	}
	if err != nil {
		c.t.Error(err)
	}
}
