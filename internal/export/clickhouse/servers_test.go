//go:build interop || measure

package clickhouse_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/export/clickhouse"
	"ingero/internal/testkit"
)

// server is a real ClickHouse server.
type server struct {
	t      *testing.T
	config string
	http   string // port
	tcp    string
	cmd    *exec.Cmd
}

// cluster is some shards of some replicas each, with ZooKeeper, all on the loopback.
type cluster struct {
	t       *testing.T
	dir     string
	servers []*server
	shards  [][]int // the servers by shard
}

// newCluster starts the servers of some shards, and creates the tables.
func newCluster(t *testing.T, shards ...[]int) *cluster {
	t.Helper()
	testkit.NeedTool(t, "clickhouse-server", "java")
	c := &cluster{t: t, dir: t.TempDir(), shards: shards}
	zookeeper := c.zookeeper()
	for range slices.Concat(shards...) {
		c.servers = append(c.servers, &server{t: t, http: testkit.FreePort(t), tcp: testkit.FreePort(t)})
	}
	users := `<yandex><profiles><default><max_memory_usage>1000000000</max_memory_usage></default></profiles><users><default><password></password>
<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users><quotas><default></default></quotas></yandex>`
	c.write("users.xml", users)
	for shard, of := range shards {
		for _, i := range of {
			c.servers[i].config = c.write(fmt.Sprintf("%d/config.xml", i), c.config(i, shard, zookeeper))
			c.servers[i].start()
		}
	}
	for _, s := range c.servers {
		s.ready()
		for _, text := range clickhouse.DDL(false) {
			s.ask(text)
		}
	}
	return c
}

func (c *cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// zookeeper starts a ZooKeeper server and returns its port.
func (c *cluster) zookeeper() string {
	c.t.Helper()
	port := testkit.FreePort(c.t)
	path := c.write("zoo.cfg", fmt.Sprintf("tickTime=500\ndataDir=%s/zookeeper\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n", c.dir, port))
	jars, err := filepath.Glob("/usr/share/java/*.jar")
	if err != nil || len(jars) == 0 {
		c.t.Fatalf("no jars: %v", err)
	}
	// Several logging libraries conflict, and their order is random.
	jars = slices.DeleteFunc(jars, func(path string) bool {
		name := filepath.Base(path)
		return strings.Contains(name, "slf4j") && name != "slf4j-api.jar" && name != "slf4j-simple.jar"
	})
	run(c.t, exec.Command("java", "-Xmx128m", "-cp", strings.Join(append([]string{"/usr/share/java/zookeeper.jar"}, jars...), ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", path))
	return port
}

// run starts a program that ends with the test.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := testkit.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func (c *cluster) config(i, shard int, zookeeper string) string {
	var remote strings.Builder
	for _, of := range c.shards {
		remote.WriteString("<shard><internal_replication>true</internal_replication>")
		for _, j := range of {
			fmt.Fprintf(&remote, "<replica><host>127.0.0.1</host><port>%s</port></replica>", c.servers[j].tcp)
		}
		remote.WriteString("</shard>")
	}
	dir := fmt.Sprintf("%s/%d/", c.dir, i)
	return fmt.Sprintf(`<yandex><logger><level>warning</level><log>%[1]slog</log><errorlog>%[1]serrors</errorlog></logger>
<http_port>%[2]s</http_port><tcp_port>%[3]s</tcp_port><interserver_http_port>%[4]s</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
<listen_host>127.0.0.1</listen_host><path>%[1]sdata/</path><tmp_path>%[1]stmp/</tmp_path><user_files_path>%[1]suser/</user_files_path>
<format_schema_path>%[1]sschema/</format_schema_path><users_config>%[5]s/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>33554432</mark_cache_size><timezone>UTC</timezone>
<zookeeper><node><host>127.0.0.1</host><port>%[6]s</port></node><session_timeout_ms>3000</session_timeout_ms></zookeeper>
<macros><shard>%[7]d</shard><replica>r%[8]d</replica></macros><remote_servers><ingero>%[9]s</ingero></remote_servers></yandex>`,
		dir, c.servers[i].http, c.servers[i].tcp, testkit.FreePort(c.t), c.dir, zookeeper, shard, i, remote.String())
}

// addresses returns servers' addresses as ingero's options.
func (c *cluster) addresses(of ...int) string {
	var out []string
	for _, i := range of {
		out = append(out, "http://127.0.0.1:"+c.servers[i].http)
	}
	return strings.Join(out, ",")
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("clickhouse-server", "--config-file="+s.config)
	s.cmd.Dir = filepath.Dir(s.config)
	run(s.t, s.cmd)
}

// kill ends the server immediately, like a crash.
func (s *server) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait()
}

// ready waits until the server answers.
func (s *server) ready() {
	s.t.Helper()
	testkit.Eventually(s.t, "ClickHouse to answer", func() bool {
		_, err := s.query("SELECT count() FROM system.zookeeper WHERE path = '/'")
		return err == nil
	})
}

func (s *server) query(text string) (string, error) {
	c := http.Client{Timeout: 60 * time.Second}
	r, err := c.Post("http://127.0.0.1:"+s.http+"/", "text/plain", strings.NewReader(text))
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %.400s", r.StatusCode, b)
	}
	return strings.TrimSpace(string(b)), err
}

// ask is query for statements that must succeed.
func (s *server) ask(text string) string {
	s.t.Helper()
	answer, err := s.query(text)
	if err != nil {
		s.t.Fatalf("%.200s: %v", text, err)
	}
	return answer
}

// panels returns the queries of the dashboard about the recorder's time, by panel.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	at := func(d time.Duration) string { return fmt.Sprintf("toDateTime(%d)", began.Add(d).Unix()) }
	with := strings.NewReplacer("$__fromTime", at(-time.Minute), "$__toTime", at(time.Hour))
	out := map[string][]string{}
	for _, p := range testkit.Panels(t, "../../../deploy/grafana/ingero-clickhouse.json") {
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], with.Replace(target.RawSQL))
		}
	}
	return out
}
