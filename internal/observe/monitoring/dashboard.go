package monitoring

import "fmt"

// Dashboard is a Grafana dashboard, with the parts of its model that these dashboards use (schema 39: Grafana 10.3 or later). The OpenShift
// console can show it, too.
type Dashboard struct {
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	Editable      bool     `json:"editable"`
	SchemaVersion int      `json:"schemaVersion"`
	Version       int      `json:"version"`
	Refresh       string   `json:"refresh"`
	Time          span     `json:"time"`
	Templating    list     `json:"templating"`
	Panels        []Panel  `json:"panels"`
	Links         []link   `json:"links"`
}

type span struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type list struct {
	List []variable `json:"list"`
}

type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// variable is a choice above a dashboard.
type variable struct {
	Name       string  `json:"name"`
	Label      string  `json:"label"`
	Type       string  `json:"type"`
	Query      string  `json:"query"`
	Datasource *source `json:"datasource,omitempty"`
	Refresh    int     `json:"refresh,omitempty"`
	Sort       int     `json:"sort,omitempty"`
	IncludeAll bool    `json:"includeAll"`
	Multi      bool    `json:"multi"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a panel of a dashboard.
type Panel struct {
	ID          int         `json:"id"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Type        string      `json:"type"`
	Datasource  source      `json:"datasource"`
	GridPos     grid        `json:"gridPos"`
	Targets     []Target    `json:"targets"`
	FieldConfig fieldConfig `json:"fieldConfig"`
	Options     object      `json:"options,omitempty"`
}

type grid struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is an expression of a panel.
type Target struct {
	RefID  string `json:"refId"`
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
	// Instant is for tables and single values, which show the current value.
	Instant bool   `json:"instant"`
	Format  string `json:"format,omitempty"`
}

type fieldConfig struct {
	Defaults  defaults `json:"defaults"`
	Overrides []any    `json:"overrides"`
}

type defaults struct {
	Unit string   `json:"unit"`
	Min  *float64 `json:"min,omitempty"`
	Max  *float64 `json:"max,omitempty"`
}

// datasource is a variable, so that users can choose the Prometheus server.
func datasource() source { return source{"prometheus", "${datasource}"} }

const dashboardTag = "windows-machine-config"

// board returns a dashboard. Panels are arranged three in a row, in order.
func board(uid, title, description string, variables []variable, panels ...Panel) Dashboard {
	d := Dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{dashboardTag, "windows"}, SchemaVersion: 39, Version: 1, Refresh: "30s",
		Time:       span{"now-3h", "now"},
		Templating: list{append([]variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"}}, variables...)},
		Links:      []link{{Title: "Windows", Type: "dashboards", Tags: []string{dashboardTag}, AsDropdown: true, IncludeVars: true, KeepTime: true}},
	}
	const columns, width, height = 3, 8, 8
	for i, p := range panels {
		p.ID, p.Datasource = i+1, datasource()
		p.GridPos = grid{H: height, W: width, X: i % columns * width, Y: i / columns * height}
		d.Panels = append(d.Panels, p)
	}
	return d
}

// choice returns a variable with the values of a label.
func choice(name, label, query string) variable {
	s := datasource()
	return variable{Name: name, Label: label, Type: "query", Query: query, Datasource: &s, Refresh: 2, Sort: 1}
}

// expression is a query with its legend.
type expression struct{ expr, legend string }

// panel returns a panel. Only graphs show more than the current values.
func panel(kind, title, unit, description string, expressions []expression) Panel {
	p := Panel{Title: title, Description: description, Type: kind, FieldConfig: fieldConfig{Defaults: defaults{Unit: unit}, Overrides: []any{}}}
	for i, e := range expressions {
		t := Target{RefID: fmt.Sprintf("%c", 'A'+i), Expr: e.expr, Legend: e.legend, Instant: kind != "timeseries"}
		if kind == "table" {
			t.Format = "table"
		}
		p.Targets = append(p.Targets, t)
	}
	if unit == "percentunit" {
		p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max = new(float64(0)), new(float64(1))
	}
	return p
}

// graph shows values over time, number one value, table the current values.
func graph(title, unit, description string, expressions ...expression) Panel {
	return panel("timeseries", title, unit, description, expressions)
}

func number(title, unit, description, expr string) Panel {
	return panel("stat", title, unit, description, []expression{{expr, ""}})
}

func table(title, description, expr string) Panel {
	return panel("table", title, "short", description, []expression{{expr, ""}})
}
