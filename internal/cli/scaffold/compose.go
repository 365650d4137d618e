package scaffold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// composeService is what counts of a service in a compose file.
type composeService struct {
	Image       string    `yaml:"image"`
	Build       yaml.Node `yaml:"build"`
	Command     yaml.Node `yaml:"command"`
	Environment yaml.Node `yaml:"environment"`
	DependsOn   yaml.Node `yaml:"depends_on"`
	Ports       yaml.Node `yaml:"ports"`
	Expose      yaml.Node `yaml:"expose"`
}

// Compose returns the specification for the services of a compose file. Squall runs programs, not images: where the program
// of an image is not known, the path is left for the reader to fill in.
func Compose(text []byte, name string) (string, error) {
	var file struct {
		Services map[string]composeService `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", fmt.Errorf("scaffold: not a compose file: %w", err)
	}
	if len(file.Services) == 0 {
		return "", fmt.Errorf("scaffold: the compose file declares no services")
	}
	var services []Service
	var scenarios []Scenario
	for _, key := range sorted(file.Services) {
		s, err := composed(key, file.Services[key])
		if err != nil {
			return "", err
		}
		services = append(services, s)
		if i := s.Interfaces[0]; i.Protocol == "http" {
			scenarios = append(scenarios, Scenario{
				Name: "ask_" + s.Name, Step: fmt.Sprintf("%s.%s.get(path = \"/\")", s.Name, i.Name), Expect: "assert_true(r.status < 500)",
			})
		}
	}
	if len(scenarios) == 0 {
		i := services[0].Interfaces[0]
		scenarios = []Scenario{{
			Name: "ask", Step: fmt.Sprintf("%s.%s.send(data = \"PING\")", services[0].Name, i.Name), Expect: "assert_true(r.ok)",
		}}
	}
	return Write(name, services, scenarios), nil
}

func composed(key string, c composeService) (Service, error) {
	s := Service{Name: Name(key), Binary: "./bin/" + key, Note: "compose builds it; put the program's path into binary"}
	known, isKnown := knownImage(c.Image)
	switch {
	case isKnown:
		s.Binary, s.Note = known.binary, "image "+c.Image+"; "+known.note
	case c.Image != "":
		s.Note = "image " + c.Image + "; put the path of its program into binary"
	}
	var err error
	if s.Args, err = words(c.Command); err != nil {
		return s, fmt.Errorf("scaffold: service %s: command: %w", key, err)
	}
	if s.Env, err = pairs(c.Environment); err != nil {
		return s, fmt.Errorf("scaffold: service %s: environment: %w", key, err)
	}
	names, err := words(c.DependsOn)
	if err != nil {
		return s, fmt.Errorf("scaffold: service %s: depends_on: %w", key, err)
	}
	for _, n := range names {
		s.DependsOn = append(s.DependsOn, Name(n))
	}
	ports, err := portsOf(c)
	if err != nil {
		return s, fmt.Errorf("scaffold: service %s: ports: %w", key, err)
	}
	if len(ports) == 0 {
		ports = []int{8080}
		if isKnown {
			ports = []int{known.port}
		}
	}
	for n, port := range ports {
		name, protocol := "main", ProtocolOf(port)
		if isKnown && port == known.port {
			protocol = known.protocol
		}
		if n > 0 {
			name = fmt.Sprintf("port%d", port)
		}
		s.Interfaces = append(s.Interfaces, Interface{name, protocol, port})
	}
	return s, nil
}

// program is what is known of an image.
type program struct {
	image, binary, note, protocol string
	port                          int
}

func knownImage(image string) (program, bool) {
	base, _, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	for _, p := range []program{
		{"postgres", "/usr/lib/postgresql/15/bin/postgres", "initdb has to make its data directory first", "tcp", 5432},
		{"redis", "redis-server", "Debian's redis-server package has it", "tcp", 6379},
		{"mariadb", "mariadbd", "Debian's mariadb-server package has it", "tcp", 3306},
		{"mysql", "mysqld", "put the path of its program into binary", "tcp", 3306},
		{"nginx", "nginx", "Debian's nginx package has it", "http", 80},
		{"rabbitmq", "rabbitmq-server", "Debian's rabbitmq-server package has it", "tcp", 5672},
		{"nats", "nats-server", "Debian's nats-server package has it", "tcp", 4222},
	} {
		if p.image == base {
			return p, true
		}
	}
	return program{}, false
}

// words reads a list, a text that is split at spaces, or the keys of a map.
func words(n yaml.Node) ([]string, error) {
	switch n.Kind {
	case 0:
		return nil, nil
	case yaml.ScalarNode:
		return strings.Fields(n.Value), nil
	case yaml.MappingNode:
		var out []string
		for i := 0; i < len(n.Content); i += 2 {
			out = append(out, n.Content[i].Value)
		}
		return out, nil
	}
	var out []string
	return out, n.Decode(&out)
}

// pairs reads an environment: a map, or a list of NAME=value.
func pairs(n yaml.Node) ([][2]string, error) {
	if n.Kind == 0 {
		return nil, nil
	}
	var out [][2]string
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = append(out, [2]string{n.Content[i].Value, n.Content[i+1].Value})
		}
		return out, nil
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return nil, err
	}
	for _, kv := range list {
		name, value, _ := strings.Cut(kv, "=")
		out = append(out, [2]string{name, value})
	}
	return out, nil
}

// portsOf returns the ports inside the container, which are those that other services use.
func portsOf(c composeService) ([]int, error) {
	var out []int
	for _, n := range []yaml.Node{c.Ports, c.Expose} {
		for _, item := range n.Content {
			text := item.Value
			if item.Kind == yaml.MappingNode {
				var long struct {
					Target string `yaml:"target"`
				}
				if err := item.Decode(&long); err != nil {
					return nil, err
				}
				text = long.Target
			}
			text, _, _ = strings.Cut(text[strings.LastIndex(text, ":")+1:], "/")
			port, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("%q is not a port", text)
			}
			if !slices.Contains(out, port) {
				out = append(out, port)
			}
		}
	}
	return out, nil
}
