from django.urls import path

from ops.tickets.api import views

urlpatterns = [
    path("tickets", views.TicketsView.as_view(), name="tickets"),
    path("tickets/reaper/latest", views.LatestReportView.as_view(), name="ticket-reaper-latest"),
    path("tickets/reaper/run", views.RunReaperView.as_view(), name="ticket-reaper-run"),
    path("tickets/<str:request_id>", views.TicketView.as_view(), name="ticket"),
]
