"""The Grafana dashboard as JSON, made from `dashboard_panels.py`.

Schema version 40 (Grafana 11.5); importing it asks for one Prometheus data source. A limit is a
second query whose value becomes the end of the panel's scale (Grafana's transformation "config
from query results"), so that no number of somebody's system stands in the file.
"""

import json
from typing import Any

import dashboard_panels as wanted
from dashboard_panels import Panel, Query, Row, Variable

SCHEMA_VERSION = 40
PANEL_HEIGHT = 8
WIDTH = 24
LIMIT = "max"  # what the limit's line is called, and the setting it becomes
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"
Json = dict[str, Any]


def render() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=2) + "\n"


def dashboard() -> Json:
    """The whole dashboard."""
    kinds = sorted({panel.kind for row in wanted.ROWS for panel in row.panels})
    return {
        "__inputs": [
            {
                "name": "DS_PROMETHEUS",
                "label": "Prometheus",
                "description": "Where controller and listeners are scraped into.",
                "type": "datasource",
                "pluginId": "prometheus",
                "pluginName": "Prometheus",
            }
        ],
        "__elements": {},
        "__requires": [
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "11.5.2"},
            {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
            *({"type": "panel", "id": kind, "name": kind, "version": ""} for kind in kinds),
        ],
        "annotations": {"list": [built_in_annotations()]},
        "description": "Scale sets, their listeners and the controller. Made by make generate.",
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": [],
        "panels": panels(wanted.ROWS),
        "refresh": "5s",
        "schemaVersion": SCHEMA_VERSION,
        "tags": ["actions-runner-controller", "runnerscale"],
        "templating": {"list": [variable(each) for each in wanted.VARIABLES]},
        "time": {"from": "now-15m", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": wanted.TITLE,
        "uid": "runnerscale",
        "version": 1,
        "weekStart": "",
    }


def built_in_annotations() -> Json:
    """Grafana's own, which every dashboard has."""
    return {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }


def variable(one: Variable) -> Json:
    """A choice, filled from Prometheus whenever the time range changes."""
    return {
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": SOURCE,
        "definition": one.query,
        "hide": 0,
        "includeAll": True,
        "label": one.label,
        "multi": True,
        "name": one.name,
        "options": [],
        "query": {
            "qryType": 1,
            "query": one.query,
            "refId": "PrometheusVariableQueryEditor-VariableQuery",
        },
        "refresh": 2,
        "regex": "",
        "skipUrlSync": False,
        "sort": 1,
        "type": "query",
    }


def panels(rows: tuple[Row, ...]) -> list[Json]:
    """All panels, laid out from left to right, a row heading over each group."""
    laid: list[Json] = []
    top = 0
    for row in rows:
        laid.append(heading(row, number=len(laid) + 1, top=top))
        top += 1
        left = 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                left, top = 0, top + PANEL_HEIGHT
            place = {"h": PANEL_HEIGHT, "w": panel.width, "x": left, "y": top}
            laid.append(drawn(panel, number=len(laid) + 1, place=place))
            left += panel.width
        top += PANEL_HEIGHT
    return laid


def heading(row: Row, *, number: int, top: int) -> Json:
    """The line over a group."""
    return {
        "collapsed": False,
        "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": top},
        "id": number,
        "panels": [],
        "title": row.title,
        "type": "row",
    }


def drawn(panel: Panel, *, number: int, place: Json) -> Json:
    """One panel."""
    queries = list(panel.queries)
    targets = [target(query, panel, chr(ord("A") + i)) for i, query in enumerate(queries)]
    extra: Json = {}
    if panel.limit:
        config = chr(ord("A") + len(queries))
        targets.append(target(Query(panel.limit, LIMIT), panel, config))
        extra["transformations"] = [limit_from(config)]
    elif panel.kind == "table":
        extra["transformations"] = [
            {"id": "organize", "options": {"excludeByName": {"Time": True}}},
        ]
    return {
        "datasource": SOURCE,
        "description": panel.text,
        "fieldConfig": {"defaults": field_defaults(panel), "overrides": []},
        "gridPos": place,
        "id": number,
        "options": options(panel.kind),
        "pluginVersion": "11.5.2",
        "targets": targets,
        "title": panel.title,
        "type": panel.kind,
        **extra,
    }


def target(query: Query, panel: Panel, ref_id: str) -> Json:
    """One query of a panel."""
    table = panel.kind == "table"
    now = table or panel.kind == "stat"
    return {
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "format": {"heatmap": "heatmap", "table": "table"}.get(panel.kind, "time_series"),
        "instant": now,
        "legendFormat": query.legend or "__auto",
        "range": not now,
        "refId": ref_id,
    }


def limit_from(config: str) -> Json:
    """The last value of that query is the end of the scale of the others."""
    return {
        "id": "configFromData",
        "options": {
            "configRefId": config,
            "mappings": [{"fieldName": LIMIT, "handlerKey": LIMIT}],
        },
    }


def field_defaults(panel: Panel) -> Json:
    """Unit, ends and colours of a panel's values."""
    steps = {
        wanted.NEUTRAL: [{"color": BLUE, "value": None}],
        wanted.FILLS: [{"color": GREEN, "value": None}, {"color": ORANGE, "value": 90}],
        wanted.ALARM: [{"color": GREEN, "value": None}, {"color": RED, "value": 1}],
    }[panel.colour]
    percent = panel.colour == wanted.FILLS  # of the limit
    defaults: Json = {
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "mappings": [],
        "thresholds": {"mode": "percentage" if percent else "absolute", "steps": steps},
        "unit": panel.unit,
    }
    if panel.kind in ("gauge", "bargauge", "timeseries"):
        defaults["min"] = 0
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 10,
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
        }
    return defaults


def options(kind: str) -> Json:
    """What each type of panel is told besides; complete, as Grafana 11.5 writes it itself."""
    if kind == "timeseries":
        return {
            "legend": {
                "calcs": [],
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if kind == "heatmap":
        return heatmap_options()
    if kind == "table":
        return {"cellHeight": "sm", "frameIndex": 0, "showHeader": True}
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    shown: Json = {"orientation": "auto", "reduceOptions": last}
    if kind == "stat":
        return {
            **shown,
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "percentChangeColorMode": "standard",
            "showPercentChange": False,
            "textMode": "value_and_name",
            "wideLayout": True,
        }
    shown |= {"minVizHeight": 75, "minVizWidth": 75, "sizing": "auto"}
    if kind == "gauge":
        return {**shown, "showThresholdLabels": False, "showThresholdMarkers": True}
    return {
        **shown,
        "displayMode": "gradient",
        "legend": {
            "calcs": [],
            "displayMode": "list",
            "placement": "bottom",
            "showLegend": False,
        },
        "maxVizHeight": 300,
        "namePlacement": "auto",
        "showUnfilled": True,
        "valueMode": "color",
    }


def heatmap_options() -> Json:
    """A histogram of Prometheus is buckets already: nothing is calculated."""
    return {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "exponent": 0.5,
            "fill": "dark-orange",
            "mode": "scheme",
            "reverse": False,
            "scale": "exponential",
            "scheme": "Oranges",
            "steps": 64,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
    }
