from django.urls import path

from ops.automations.api import hooks, source_views, views

urlpatterns = [
    path("automations/rules", views.RulesView.as_view(), name="automation-rules"),
    path("automations/rules/try", views.RuleTrialView.as_view(), name="automation-rule-trial"),
    path("automations/rules/<str:rule_id>", views.RuleView.as_view(), name="automation-rule"),
    path("automations/events", views.AutomationEventsView.as_view(), name="automation-events"),
    path("automations/events/<str:event>/again", views.EmitAgainView.as_view(), name="automation-event-again"),
    path("automations/tasks", views.TasksView.as_view(), name="automation-tasks"),
    path("automations/tasks/<str:task>", views.TaskView.as_view(), name="automation-task"),
    path("automations/messages", views.MessagesView.as_view(), name="automation-messages"),
    path("automations/sources", source_views.SourcesView.as_view(), name="automation-sources"),
    path("automations/sources/<str:source>", source_views.SourceView.as_view(), name="automation-source"),
    path(
        "automations/sources/<str:source>/rotate",
        source_views.SourceRotateView.as_view(),
        name="automation-source-rotate",
    ),
    path(
        "automations/sources/<str:source>/pause", source_views.SourcePauseView.as_view(), name="automation-source-pause"
    ),
    path(
        "automations/sources/<str:source>/resume",
        source_views.SourceResumeView.as_view(),
        name="automation-source-resume",
    ),
    path("automations/sources/<str:source>/look", source_views.SourceLookView.as_view(), name="automation-source-look"),
    path("automations/hooks/<str:source>", hooks.hook, name="automation-hook"),
]
